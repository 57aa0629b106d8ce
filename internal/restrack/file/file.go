package file

import (
	"errors"
	"time"
)

// DirVariable names a directory for the tables of several users, which the administrator creates with
// the rights that the readers need, for example with the mode 3770 and a group: tables in it belong to
// the group, which may read them, and only their owners may remove them.
const DirVariable = "SOFTHCA_TABLES"

// Off is the value of DirVariable that turns tables off.
const Off = "off"

// ErrOff is the error of Create if tables are turned off, or there are none on this system.
var ErrOff = errors.New("tables of objects are off")

// ErrChanged is the error of a table whose file became shorter while it was read.
var ErrChanged = errors.New("the table was damaged while it was read")

const (
	subdir   = "tables"
	tempName = ".softhca-new-" // prefix of a table that readers do not see yet

	keepDead = 24 * time.Hour // how long the table of a dead process stays
	maxDead  = 16             // tables of dead processes in a directory
	maxFound = 1024           // tables of one user that Find returns
)

// Condition is the state of the process of a table.
type Condition uint8

// The conditions.
const (
	Running Condition = iota
	Dead              // the process died without closing the adapter
)

// String returns "running" or "dead".
func (c Condition) String() string {
	if c == Running {
		return "running"
	}
	return "dead"
}
