package file

import (
	"errors"
	"time"
)

// DirVariable names a directory for the tables of all users, which the administrator creates with
// the rights that the readers need, for example with the mode 2770 and a group. Tables in it belong
// to the group of the directory and are readable by it.
const DirVariable = "SOFTHCA_TABLES"

// Off is the value of DirVariable that turns tables off.
const Off = "off"

// ErrOff is the error of Create if tables are turned off, or there are none on this system.
var ErrOff = errors.New("tables of objects are off")

// ErrChanged is the error of a table whose file became shorter while it was read.
var ErrChanged = errors.New("the table was damaged while it was read")

const (
	subdir   = "tables"
	tempName = "new-" // prefix of a table in the making

	keepDead = 24 * time.Hour // how long the table of a dead process stays
	maxDead  = 16             // tables of dead processes in a directory
	maxFound = 4096           // tables that Find returns
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
