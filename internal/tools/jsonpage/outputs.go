package main

// output is a command's output as JSON.
type output struct {
	command string // the command line
	form    string // a sentence about the sequence of objects; %s is the object
	version string // a sentence about versions; "" if there is none
	pkg     string // where the object is declared, below the root
	object  string
}

var outputs = []output{
	{"softhca explain --json FILE", "One object, %s.", "`version`, which grows when a field changes its meaning or goes; new fields do not change it.", "internal/explain", "Report"},
	{"softhca decode --json FILE", "An object for each packet, on a line of its own: %s.", "", "cmd/softhca/internal/decode", "Packet"},
	{"softhca perf OPERATION --json", "One object, %s, of a client.", "", "cmd/softhca/internal/perf", "Summary"},
	{"softhca perf OPERATION --json, when the connection fails", "One object, %s; the exit code is 1.", "", "cmd/softhca/internal/perf", "Failure"},
	{"softhca perf OPERATION --json --local --loss-ratio SHARE", "One object, %s.", "", "cmd/softhca", "lossRatio"},
	{"softhca perf cm --json", "One object, %s, of a client.", "", "cmd/softhca/internal/connections", "Summary"},
	{"softhca demo --json", "One object, %s; the exit code is 0 only if everything was verified.", "", "cmd/softhca/internal/demo", "Summary"},
	{"softhca sim --json", "One object, %s.", "", "cmd/softhca", "simResult"},
	{"softhca sim --json --loss-ratio SHARE", "One object, %s.", "", "internal/sim", "LossRatio"},
	{"softhca judge --json REPORT", "One object, %s, in the file REPORT.", "`schema`, `softhca-judge/1`: the number grows when a field changes its meaning or goes.", "internal/judge", "Report"},
	{"softhca judge --list --json FILE", "An array of objects, %s, in the file FILE, or on standard output if FILE is `-`.", "", "internal/judge", "Plan"},
	{"softhca play --json SCRIPT", "An array of objects, %s; with `--list` too.", "", "cmd/softhca/internal/play", "outcome"},
	{"softhca states --json", "An array of objects, %s; so does `--format json`.", "", "cmd/softhca/internal/states", "Move"},
	{"softhca cm-states --json", "An array of objects, %s; so does `--format json`.", "", "cmd/softhca/internal/cmstates", "Cell"},
	{"softhca faults --json --list", "An array of objects, %s.", "", "cmd/softhca/internal/faults", "entry"},
	{"softhca faults --json --nasty", "An array of objects, %s.", "", "cmd/softhca/internal/faults", "behaviour"},
	{"softhca faults --json RULE", "An array of objects, %s.", "", "cmd/softhca/internal/faults", "Rule"},
	{"softhca devices --json", "An array of objects, %s.", "", "cmd/softhca/internal/devices", "Device"},
	{"softhca top --once --json", "An array of objects, %s.", "", "cmd/softhca/internal/top", "Adapter"},
	{"softhca explore --json FILE", "One object, %s, in the file FILE; - is standard output.", "`version`, which grows when a field changes its meaning or goes; new fields do not change it.", "internal/explore", "Report"},
	{"softhca explore --list --json FILE", "An array of objects, %s.", "", "internal/explore", "Fault"},
	{"softhca run --check --report FILE.json", "One object, %s, in the file FILE.json.", "`version`, which grows when a field changes its meaning or goes; new fields do not change it.", "internal/check", "Report"},
	{"softhca version --json", "One object, %s.", "", "cmd/softhca", "version"},
}
