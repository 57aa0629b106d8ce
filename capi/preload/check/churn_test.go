//go:build linux

package check

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/restrack/file"
	"github.com/softhca/softhca/verbs"
)

var tableChurn = flag.Duration("table-churn", 0, "how long TestW1_RealChurn lists queue pairs, up to 1000 at a time; 0: a hundred times, up to 100")

// churnEnv makes the test binary create and destroy queue pairs: of the adapter with an address, up to a
// number, with a seed.
const churnEnv = "SOFTHCA_TEST_CHURN"

// TestW1_RealChurn lists the queue pairs of another process, which connects and destroys them. No answer
// mixes two of them.
func TestW1_RealChurn(t *testing.T) {
	b := newBenchAt(t, newAddr())
	most := 100
	if *tableChurn != 0 {
		most = 1000
	}
	number := rand.Uint64()
	t.Logf("seed %d", number)
	dir := file.DirVariable + "=" + t.TempDir()
	other := exec.Command(os.Args[0], "-test.run=^TestHelperChurns$")
	other.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", churnEnv, b.addr, most, number), dir)
	out, err := other.StdoutPipe()
	must.Do(t, errors.Join(err, other.Start()))
	defer func() { _, _ = other.Process.Kill(), other.Wait() }()
	if _, err := out.Read(make([]byte, 1)); err != nil { // it has queue pairs
		t.Fatal(err)
	}
	cmd := b.command(t, "", compile(t, "netlink"), "churn", strconv.FormatInt(tableChurn.Milliseconds(), 10))
	cmd.Env = append(cmd.Env, dir)
	text, err := cmd.CombinedOutput()
	var dumps, rows, seen int
	if _, e := fmt.Sscanf(string(text), "%d dumps, %d rows, up to %d at a time\n0 failures", &dumps, &rows, &seen); e != nil || err != nil || rows < dumps || seen > most {
		t.Errorf("%v, %d rows in %d dumps, up to %d: %s", err, rows, dumps, seen, text)
	}
	t.Log(strings.ReplaceAll(string(text), "\n", "; "))
}

// TestHelperChurns is the other process of TestW1_RealChurn, until it is killed.
func TestHelperChurns(t *testing.T) {
	var addr string
	var most int
	var number uint64
	if _, err := fmt.Sscan(os.Getenv(churnEnv), &addr, &most, &number); err != nil {
		t.Skip("it is the other process of TestW1_RealChurn") // not a test by itself
	}
	ctx, err := verbs.Open(verbs.Config{Addr: addr})
	must.Do(t, err)
	pd, err := ctx.AllocPD()
	must.Do(t, err)
	cq, err := ctx.CreateCQ(63, nil)
	must.Do(t, err)
	r := rand.New(rand.NewPCG(number, 0))
	var alive []*verbs.QP
	for growing, told := true, false; ; {
		switch len(alive) {
		case most:
			growing = false
		case most / 2:
			growing = true
			if !told {
				_, _ = os.Stdout.WriteString("ready")
			}
			told = true
		}
		if len(alive) == 0 || len(alive) < most && (r.IntN(4) == 0) != growing {
			alive = append(alive, connected(t, ctx, pd, cq))
			continue
		}
		i := r.IntN(len(alive))
		if r.IntN(4) == 0 {
			must.Do(t, alive[i].Modify(&verbs.QPAttr{State: ib.ERR}, ib.AttrState))
		}
		must.Do(t, alive[i].Destroy())
		alive = slices.Delete(alive, i, i+1)
	}
}

// connected creates a queue pair whose peer has its number with another lowest bit.
func connected(t *testing.T, ctx *verbs.Context, pd *verbs.PD, cq *verbs.CQ) *verbs.QP {
	t.Helper()
	q, err := pd.CreateQP(&verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	must.Do(t, err)
	e, err := q.Endpoint(ib.NewPSN(1), ctx.GIDIndex())
	must.Do(t, err)
	peer := e
	peer.QPN ^= 1
	must.Do(t, q.Connect(e, peer, verbs.ConnectionAttr()))
	return q
}
