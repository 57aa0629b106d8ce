package verbs

import (
	"fmt"
	"os"
	"testing"
)

// peerEnv is an environment variable that makes the test binary the other process of
// the transfer test.
const peerEnv = "SOFTHCA_TRANSFER_PEER"

func TestMain(m *testing.M) {
	if os.Getenv(peerEnv) == "" {
		os.Exit(m.Run())
	}
	if err := servePeer(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "transfer peer:", err)
		os.Exit(1)
	}
}
