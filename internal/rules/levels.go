package rules

import "strings"

// Kind says what the code of a package may do.
type Kind uint8

const (
	// Engine code does no I/O, starts no goroutine, reads no clock, logs
	// nothing and has no randomness of its own.
	Engine Kind = iota
	// Waiter is engine code that may also block on a timer: a port within the
	// process.
	Waiter
	// IO code is in the engine's levels and talks to the operating system.
	IO
	// Shell is everything above the engine.
	Shell
	// Tool code is outside the levels: no other kind may import it, but every
	// test may.
	Tool
)

// String returns the name of the kind.
func (k Kind) String() string { return kindNames[k] }

var kindNames = [...]string{Engine: "engine", Waiter: "waiter", IO: "io", Shell: "shell", Tool: "tool"}

// Row places a package in the levels. A package may import only packages of
// lower levels, those of its own tree, and the footing of its level.
type Row struct {
	Path   string // below the module; ending in /... it stands for a whole tree
	Level  int
	Kind   Kind
	Public bool // importable by other modules
}

// toolLevel is above every other level.
const toolLevel = 99

var table = []Row{
	{"ib", 0, Engine, true},
	{"internal/clock", 0, Engine, false},
	{"internal/counters", 0, Engine, false},
	{"internal/lock", 0, Engine, false},
	{"internal/printable", 0, Engine, false},
	{"internal/wording", 0, Engine, false},
	{"internal/check/findings", 0, Engine, false},
	{"internal/fabric/ipudp", 0, Engine, false},
	{"internal/fabric/fdmark", 0, IO, false},
	{"internal/environ", 0, IO, false},
	{"internal/restrack", 0, Engine, false},
	{"internal/userns", 0, IO, false},
	{"internal/namespace", 0, Shell, false},

	{"roce", 1, Engine, true},
	{"mad", 1, Engine, true},
	{"internal/fabric", 1, Engine, false},
	{"internal/fabric/near/ring", 1, IO, false},
	{"internal/ring", 1, Engine, false},
	{"internal/deadline", 1, Engine, false},
	{"internal/nasty", 1, Engine, false},
	{"internal/userdir", 1, IO, false},
	{"internal/number", 1, Engine, false},
	{"internal/pcapfile", 1, IO, false},

	{"internal/trace", 2, Engine, false},
	{"internal/packet", 2, Engine, false},
	{"internal/gsi", 2, Engine, false},
	{"internal/memory", 2, Engine, false},
	{"internal/flow", 2, Engine, false},
	{"internal/fault", 2, Engine, false},
	{"internal/fault/sites", 3, IO, false},
	{"internal/fabric/pipe", 2, Waiter, false},
	{"internal/fabric/near/meeting", 2, IO, false},
	{"internal/fabric/near", 3, IO, false},
	{"internal/fabric/ident", 2, Engine, false},
	{"internal/fabric/iface", 2, IO, false},
	{"internal/fabric/poll", 2, IO, false},
	{"internal/fabric/waiter", 2, Waiter, false},
	{"internal/fabric/udp", 2, IO, false},
	{"internal/fabric/raw", 2, IO, false},
	{"internal/fabric/capture", 2, IO, false},
	{"internal/identity", 2, IO, false},
	{"internal/libraries", 2, IO, false},
	{"internal/restrack/file", 2, IO, false},
	{"internal/debian", 2, IO, false},

	{"internal/check/writes", 3, Shell, false},
	{"internal/qp", 3, Engine, false},
	{"internal/cm", 3, Engine, false},
	{"internal/eventlog", 3, IO, false},
	{"internal/pcapfile/runs", 3, IO, false},

	{"internal/shard", 4, Engine, false},
	{"internal/pcapfile/clocks", 4, IO, false},

	{"internal/hca", 5, Engine, false},

	{"internal/check/live", 6, Shell, false},
	{"internal/driver", 6, Shell, false},
	{"internal/broker", 6, Shell, false},
	{"internal/virtual", 6, Shell, false},
	{"internal/testagent", 6, Shell, false},

	{"internal/device", 7, Shell, false},
	{"internal/sim", 7, Shell, false},
	{"internal/sim/storm", 7, Shell, false},
	{"internal/sim/channels", 7, Shell, false},
	{"internal/script", 7, Shell, false},

	{"internal/check/symbols", 8, Shell, false},
	{"internal/sysfs", 8, Shell, false},
	{"internal/observe", 8, Shell, false},
	{"verbs", 8, Shell, true},

	{"verbs/verbstest", 11, Shell, true},
	{"rdmacm", 9, Shell, true},
	{"internal/check", 9, Shell, false},
	{"internal/judge", 9, Shell, false},
	{"internal/explore/stacks", 10, Shell, false},
	{"internal/explore/stacks/cfi", 9, Engine, false},
	{"internal/explore", 10, Shell, false},
	{"internal/explain", 9, Shell, false},

	{"rdmacm/stream", 10, Shell, true},

	{"cmd/softhca/...", 12, Shell, false},
	{"bench/...", 12, Shell, false},
	{"examples/...", 12, Shell, false},
	{"capi/...", 12, Shell, false},
	{"interop/...", 12, Shell, false},

	{"internal/churn", toolLevel, Tool, false},
	{"internal/environ/setid", toolLevel, Tool, false},
	{"internal/fabric/near/campaign", toolLevel, Tool, false},
	{"internal/fabric/sandbox", toolLevel, Tool, false},
	{"internal/golden", toolLevel, Tool, false},
	{"internal/hca/rig", toolLevel, Tool, false},
	{"internal/must", toolLevel, Tool, false},
	{"internal/ring/cpeer", toolLevel, Tool, false},
	{"internal/mutation/...", toolLevel, Tool, false},
	{"internal/pages", toolLevel, Tool, false},
	{"internal/pcapfile/captures", toolLevel, Tool, false},
	{"internal/rules", toolLevel, Tool, false},
	{"internal/shard/rig", toolLevel, Tool, false},
	{"internal/tools/...", toolLevel, Tool, false},
}

// footing are the packages that all packages of their level may import; of that
// level, they import only each other.
var footing = []string{
	"internal/driver",
	"internal/fabric/ident",
	"internal/fabric/iface",
	"internal/fabric/poll",
	"internal/fabric/waiter",
	"internal/packet",
	"internal/trace",
}

// programLevel is the level of programs: commands, benchmarks, examples and
// what runs C programs or other adapters. Tools are above it.
const programLevel = 12

// Program reports whether the package belongs to a program or a tool, rather than
// to the libraries below them.
func (r Row) Program() bool { return r.Level >= programLevel }

// Find returns the row of a package by its path below the module, and false
// if the table has none.
func Find(path string) (Row, bool) {
	for _, r := range table {
		if tree, ok := strings.CutSuffix(r.Path, "/..."); ok && inTree(path, tree) || path == r.Path {
			return r, true
		}
	}
	return Row{}, false
}

func inTree(path, tree string) bool {
	return path == tree || strings.HasPrefix(path, tree+"/")
}

// pure reports whether packages of the kind must do without an operating
// system.
func (k Kind) pure() bool { return k == Engine || k == Waiter }
