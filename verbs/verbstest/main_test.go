package verbstest_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/softhca/softhca/verbs"
)

// childEnv is an environment variable that makes the test binary a program with bugs.
const childEnv = "SOFTHCA_CHECKED_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := useDestroyed(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// useDestroyed is a program that uses a protection domain that it has deallocated, at one place, in each of two adapters.
func useDestroyed() error {
	n := verbs.NewNetwork()
	for _, addr := range []string{"10.0.0.1", "10.0.0.2"} {
		ctx, err := verbs.Open(verbs.Config{Network: n, Addr: addr})
		if err != nil {
			return err
		}
		pd, err := ctx.AllocPD()
		if err != nil {
			return err
		}
		if err := pd.Dealloc(); err != nil {
			return err
		}
		_, _ = pd.RegMR(nil, 0)                  // the bug
		if _, err := ctx.AllocPD(); err != nil { // stays
			return err
		}
		if err := ctx.Close(); err != nil {
			return err
		}
	}
	return nil
}
