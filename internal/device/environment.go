package device

import (
	"fmt"
	"strconv"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/environ"
	"github.com/softhca/softhca/internal/identity"
)

// Environment has the settings that a device takes from the environment of its process. In a
// C program the C library reads them: Go's runtime would read the initial environment block,
// which programs that change their process title overwrite.
type Environment struct {
	ConfigDir    string // directory of the user's configuration; empty if there is none
	GUID         string // value of SOFTHCA_GUID
	Faults       string // value of SOFTHCA_FAULTS
	FaultsSeed   string // value of SOFTHCA_FAULTS_SEED
	Wire         string // value of SOFTHCA_WIRE
	Check        string // value of SOFTHCA_CHECK; only for programs in Go: the C library checks the others
	CheckDir     string // value of SOFTHCA_CHECK_DIR
	Nasty        string // value of SOFTHCA_NASTY
	Sites        string // value of SOFTHCA_SITES: the directory in which softhca explore counts what can fail
	RetrySpeedup string // value of SOFTHCA_RETRY_SPEEDUP
}

// Secret returns the secret of the user, nil if it is not stored, so that no other process
// has it.
func (e *Environment) Secret() *identity.Secret {
	if s, kept := identity.OfUser(e.ConfigDir); kept {
		return &s
	}
	return nil
}

// The environment variables of an Environment. The GUID is that of the first adapter;
// further adapters get the following numbers. Faults contains rules for every adapter
// that the program opens, in the form of fault.Split.
const (
	guidEnv       = "SOFTHCA_GUID"
	faultsEnv     = "SOFTHCA_FAULTS"
	faultsSeedEnv = "SOFTHCA_FAULTS_SEED"
	wireEnv       = "SOFTHCA_WIRE"
	checkEnv      = "SOFTHCA_CHECK"
	checkDirEnv   = "SOFTHCA_CHECK_DIR"
	nastyEnv      = "SOFTHCA_NASTY"
)

// SitesEnv names the directory in which softhca explore counts what can fail.
const SitesEnv = "SOFTHCA_SITES"

// RetrySpeedupEnv says how many times shorter the timers of retries are after the first has expired; see qp.Settings.RetrySpeedup.
const RetrySpeedupEnv = "SOFTHCA_RETRY_SPEEDUP"

// maxRetrySpeedup bounds the value of RetrySpeedupEnv.
const maxRetrySpeedup = 1000

// retrySpeedup returns the value of RetrySpeedupEnv, 0 if there is none.
func (e *Environment) retrySpeedup() (int, error) {
	if e.RetrySpeedup == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(e.RetrySpeedup)
	if err != nil || n < 1 || n > maxRetrySpeedup {
		return 0, fmt.Errorf("%s: %.20q: want a number from 1 to %d: %w", RetrySpeedupEnv, e.RetrySpeedup, maxRetrySpeedup, ib.EINVAL)
	}
	return n, nil
}

// ProcessEnvironment returns the environment of a program in Go. It is empty in a
// set-user-ID program.
func ProcessEnvironment() Environment {
	return Environment{
		ConfigDir: environ.ConfigDir(), GUID: environ.Getenv(guidEnv),
		Faults: environ.Getenv(faultsEnv), FaultsSeed: environ.Getenv(faultsSeedEnv), Wire: environ.Getenv(wireEnv),
		Check: environ.Getenv(checkEnv), CheckDir: environ.Getenv(checkDirEnv), Nasty: environ.Getenv(nastyEnv),
		Sites: environ.Getenv(SitesEnv), RetrySpeedup: environ.Getenv(RetrySpeedupEnv),
	}
}
