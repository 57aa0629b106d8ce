package device

import "os"

// Environment is what a device takes from the environment of its process. A library in a
// program in C cannot ask Go for it: Go's runtime reads the memory that the kernel filled
// when the process began, and programs that change their title write over it.
type Environment struct {
	ConfigDir  string // directory of the user's configuration; empty if there is none
	GUID       string // value of SOFTHCA_GUID
	Faults     string // value of SOFTHCA_FAULTS
	FaultsSeed string // value of SOFTHCA_FAULTS_SEED
}

// The environment variables of an Environment. The GUID is that of the first adapter;
// those of others count on from it. Faults are rules for every adapter that the program
// opens: rules, or the name of a file with rules after an @.
const (
	guidEnv       = "SOFTHCA_GUID"
	faultsEnv     = "SOFTHCA_FAULTS"
	faultsSeedEnv = "SOFTHCA_FAULTS_SEED"
)

// ProcessEnvironment returns the environment of a program in Go.
func ProcessEnvironment() Environment {
	e := Environment{GUID: os.Getenv(guidEnv), Faults: os.Getenv(faultsEnv), FaultsSeed: os.Getenv(faultsSeedEnv)}
	if dir, err := os.UserConfigDir(); err == nil { // else the user has none
		e.ConfigDir = dir
	}
	return e
}
