//go:build !portable

package near

import (
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
)

// TestPairs counts pairs of processes while two ports meet, and part.
func TestPairs(t *testing.T) {
	pairs := func() int {
		n, err := Pairs()
		must.Do(t, err)
		return n
	}
	a, b := open(t, Config{}), open(t, Config{})
	before := pairs()
	met(t, a, b)
	await := func(want int) {
		t.Helper()
		for end := time.Now().Add(waitLimit); pairs() != want; pause(t, a) {
			if time.Now().After(end) {
				t.Fatalf("%d pairs, want %d", pairs(), want)
			}
		}
	}
	await(before + 1)
	must.Do(t, a.Close())
	must.Do(t, b.Close())
	await(before)
}

// TestPairsInList reads a list of sockets.
func TestPairsInList(t *testing.T) {
	const list = `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000003 00000000 00000000 0001 03 28446
0000000000000000: 00000002 00000000 00010000 0005 01 28447 @softhca/near/secret/0
0000000000000000: 00000003 00000000 00000000 0005 03 28448 @softhca/near/secret/0
0000000000000000: 00000003 00000000 00000000 0005 03 28449 @softhca/near/other/12
0000000000000000: 00000003 00000000 00000000 0005 03 28450 @softhca/broker
0000000000000000: 00000003 00000000 00000000 0001 03 28451 /run/@softhca/near/x/0
nonsense
`
	if n, err := pairsIn(strings.NewReader(list)); err != nil || n != 2 {
		t.Errorf("%d pairs, %v; want 2", n, err)
	}
}
