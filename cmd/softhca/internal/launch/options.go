package launch

import (
	"log/slog"
)

// Options are the program and its adapters.
type Options struct {
	Program []string // and its arguments
	Addrs   []string // Config.Addr (package verbs) of each adapter; if empty, those of Env, or else a free loopback address
	Device  string   // name of the first adapter
	Env     []string // environment of the program, as os.Environ returns it
	Set     []Var    // additional variables
	Command string   // path of the running command, in the directory of the libraries
	Log     *slog.Logger
	Say     func(format string, args ...any) // prints a line for the user
}

// Var is a variable of the environment.
type Var struct{ Name, Value string }

// The variables that the libraries read. Children of the program inherit them. Commas
// separate the addresses of one adapter, semicolons those of several adapters.
const (
	AddrEnv      = "SOFTHCA_ADDR"
	DeviceEnv    = "SOFTHCA_DEVICE"
	SysfsEnv     = "SOFTHCA_SYSFS"
	CaptureEnv   = "SOFTHCA_CAPTURE"
	LogLevelEnv  = "SOFTHCA_LOG_LEVEL"
	LogFormatEnv = "SOFTHCA_LOG_FORMAT"
	CheckEnv     = "SOFTHCA_CHECK"     // what to check: words, separated by commas
	CheckDirEnv  = "SOFTHCA_CHECK_DIR" // where each process writes its findings
)

// CaptureSocket is in front of the path of a Unix socket in CaptureEnv: each adapter
// connects to it and writes its capture there.
const CaptureSocket = "unix:"

// CaptureProcess is the part of CaptureEnv that the adapter replaces by its process ID.
const CaptureProcess = "%p"

// ChosenEnv has the values of other variables that a run chose itself, separated by
// blanks. A run inside that run ignores them and chooses new ones.
const ChosenEnv = "SOFTHCA_CHOSEN"

// The exit codes of a command that could not run a program, as those of env(1).
const (
	CodeFailed   = 125 // run itself failed
	CodeCannot   = 126 // the program is there and cannot be run
	CodeNotFound = 127
)

// Error is the reason why a program was not run.
type Error struct {
	Code int
	Err  error
}

// Error returns what is wrong.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
