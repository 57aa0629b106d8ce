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
	if err := destroyTwice(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// destroyTwice is a program that deallocates a protection domain twice, at one place, in each of two adapters.
func destroyTwice() error {
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
		for range 2 {
			_ = pd.Dealloc() // the bug
		}
		if _, err := ctx.AllocPD(); err != nil { // stays
			return err
		}
		if err := ctx.Close(); err != nil {
			return err
		}
	}
	return nil
}
