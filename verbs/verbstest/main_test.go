package verbstest_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/softhca/softhca/verbs"
)

// childEnv is an environment variable that makes the test binary one of the programs.
const childEnv = "SOFTHCA_CHECKED_PROGRAM"

// programs are programs with a bug. They end in different ways.
var programs = map[string]func() error{
	"returns":      useDestroyed,
	"only advised": leaveOne,
	"does not close": func() error {
		_, err := useInOne(verbs.WithCheck(nil))
		return err
	},
	"exits": func() error {
		if _, err := useInOne(verbs.WithCheck(nil)); err != nil {
			return err
		}
		os.Exit(7)
		return nil
	},
	"exits when it is told": func() error {
		_, err := useInOne(verbs.WithCheck(func(*verbs.Finding) { os.Exit(7) }))
		return err
	},
	"panics": func() error {
		_, err := useInOne(verbs.WithCheck(nil))
		panic(err)
	},
	"waits": func() error {
		_, err := useInOne(verbs.WithCheck(nil))
		fmt.Println("waits")
		if err == nil {
			select {}
		}
		return err
	},
}

func TestMain(m *testing.M) {
	program := programs[os.Getenv(childEnv)]
	if program == nil {
		os.Exit(m.Run())
	}
	if err := program(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// useDestroyed is a program that uses a protection domain that it has deallocated, at one place, in each of two adapters.
func useDestroyed() error {
	for range 2 {
		ctx, err := useInOne(verbs.WithCheck(nil))
		if err != nil {
			return err
		}
		if err := ctx.Close(); err != nil {
			return err
		}
	}
	return nil
}

// useInOne does it in an adapter, and leaves another protection domain there.
func useInOne(check verbs.Option) (*verbs.Context, error) {
	ctx, err := verbs.Open(verbs.Config{Network: verbs.NewNetwork(), Addr: "10.0.0.1"}, check)
	if err != nil {
		return nil, err
	}
	pd, err := ctx.AllocPD()
	if err != nil {
		return nil, err
	}
	if err := pd.Dealloc(); err != nil {
		return nil, err
	}
	_, _ = pd.RegMR(nil, 0) // the bug
	_, err = ctx.AllocPD()  // stays
	return ctx, err
}

// leaveOne leaves one of two protection domains in an adapter that it closes.
func leaveOne() error {
	ctx, err := verbs.Open(verbs.Config{Network: verbs.NewNetwork(), Addr: "10.0.0.1"})
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
	if _, err := ctx.AllocPD(); err != nil { // stays
		return err
	}
	return ctx.Close()
}
