package launch

import (
	"log/slog"
)

// Options say what to run, and on which adapter.
type Options struct {
	Program []string // and its arguments
	Addrs   []string // of each adapter, as Config.Addr of package verbs; without any those of Env, else a free one of the loopback network
	Device  string   // name of the adapter, or of the first
	Env     []string // of the program, as os.Environ returns it
	Set     []Var    // more of it
	Command string   // path of the running command, beside which the libraries are
	Log     *slog.Logger
	Say     func(format string, args ...any) // tells the user, in a line
}

// Var is a variable of the environment.
type Var struct{ Name, Value string }

// The environment that the libraries read. What a program starts inherits it. The
// addresses of one adapter have commas between them, those of several semicolons.
const (
	AddrEnv      = "SOFTHCA_ADDR"
	DeviceEnv    = "SOFTHCA_DEVICE"
	SysfsEnv     = "SOFTHCA_SYSFS"
	FaultEnv     = "SOFTHCA_FAULT"
	FaultFileEnv = "SOFTHCA_FAULT_FILE"
	CaptureEnv   = "SOFTHCA_CAPTURE"
	LogLevelEnv  = "SOFTHCA_LOG_LEVEL"
)

// CaptureSocket is in front of the path of a Unix socket in CaptureEnv: each adapter
// connects to it and writes its capture there.
const CaptureSocket = "unix:"

// CaptureProcess is the part of CaptureEnv that the adapter replaces by its process ID.
const CaptureProcess = "%p"

// ChosenEnv has the values of other variables that nobody asked for, separated by
// blanks: what runs inside of a program that runs chooses for itself.
const ChosenEnv = "SOFTHCA_CHOSEN"

// The exit codes of a command that could not run a program, as those of env(1).
const (
	CodeFailed   = 125 // something else than the program
	CodeCannot   = 126 // the program is there and cannot be run
	CodeNotFound = 127
)

// Error is why a program was not run.
type Error struct {
	Code int
	Err  error
}

// Error returns what is wrong.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
