package verbstest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/verbs"
	"github.com/softhca/softhca/verbs/verbstest"
)

// bugEnv names the bug that the program of TestExplore has.
const bugEnv = "SOFTHCA_EXPLORED_BUG"

// end is an end of a connection of the program that TestExplore explores.
type end struct {
	ctx *verbs.Context
	pd  *verbs.PD
	buf []byte
	mr  *verbs.MR
	cq  *verbs.CQ
	qp  *verbs.QP
}

const (
	messages    = 1    // so the first of most things is the last
	messageSize = 5000 // more than one packet
)

// openEnd opens an adapter and makes what a connection needs.
func openEnd(cfg verbs.Config, check verbs.Option, bug string) (e *end, err error) {
	e = &end{buf: make([]byte, messageSize)}
	defer func() {
		if err != nil && bug != "leaks" {
			err = errors.Join(err, e.close())
		}
	}()
	if e.ctx, err = verbs.Open(cfg, check); err != nil {
		return e, err
	}
	if e.pd, err = e.ctx.AllocPD(); err != nil {
		return e, err
	}
	if e.mr, err = e.pd.RegMR(e.buf, verbs.AccessLocalWrite); err != nil && bug != "does not look" {
		return e, err
	}
	if e.cq, err = e.ctx.CreateCQ(16, nil); err != nil {
		return e, err
	}
	e.qp, err = e.pd.CreateQP(&verbs.QPInitAttr{
		Type: verbs.RC, SQSig: verbs.SigAll, SendCQ: e.cq, RecvCQ: e.cq,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	return e, err
}

// close destroys all that there is.
func (e *end) close() (err error) {
	if e.qp != nil {
		err = errors.Join(err, e.qp.Destroy())
	}
	if e.cq != nil {
		err = errors.Join(err, e.cq.Destroy())
	}
	if e.mr != nil {
		err = errors.Join(err, e.mr.Dereg())
	}
	if e.pd != nil {
		err = errors.Join(err, e.pd.Dealloc())
	}
	if e.ctx != nil {
		err = errors.Join(err, e.ctx.Close())
	}
	return err
}

// await waits for a completion.
func (e *end) await(bug string) error {
	limit := 300 * time.Millisecond
	if bug == "waits" {
		limit = time.Hour
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		if err := e.cq.Wait(ctx); err != nil {
			return err
		}
		var wc [1]verbs.WC
		n, err := e.cq.Poll(wc[:])
		switch {
		case err != nil:
			return err
		case n == 0:
		case wc[0].Status == verbs.WCSuccess:
			return nil
		case bug != "waits":
			return fmt.Errorf("completion with %v", wc[0].Status)
		}
	}
}

// transfer sends messages from one end to another. It returns an error that something reported to it.
func transfer(t *testing.T, bug string) (err error) {
	network, check := verbs.NewNetwork(), verbstest.Check(t)
	var ends [2]*end
	var at [2]verbs.Endpoint
	for i := range ends {
		e, err := openEnd(verbs.Config{Network: network, Addr: fmt.Sprintf("10.0.0.%d", i+1)}, check, bug)
		if err != nil {
			return err
		}
		ends[i] = e
		defer func() { t.Logf("close: %v", e.close()) }()
	}
	for i, e := range ends {
		if at[i], err = e.qp.Endpoint(verbs.RandomPSN(), 0); err != nil {
			return err
		}
	}
	attr := verbs.ConnectionAttr()
	attr.RNRRetry, attr.PathMTU = 6, verbs.MTU4096
	for i, e := range ends {
		if err := e.qp.Connect(at[i], at[1-i], attr); err != nil {
			return err
		}
	}
	a, b := ends[0], ends[1]
	for n := range messages {
		for i := range a.buf {
			a.buf[i] = byte(i + n + 1)
		}
		if err := b.qp.PostRecv(verbs.RecvWR{SGList: []verbs.SGE{b.mr.SGE(0, messageSize)}}); err != nil {
			return err
		}
		if err := a.qp.PostSend(verbs.SendWR{Opcode: verbs.WRSend, SGList: []verbs.SGE{a.mr.SGE(0, messageSize)}}); err != nil {
			return err
		}
		if err := errors.Join(a.await(bug), b.await(bug)); err != nil && bug != "goes on" {
			return err
		}
		if !bytes.Equal(a.buf, b.buf) {
			t.Errorf("message %d is wrong", n)
		}
	}
	return nil
}

// TestExplore explores the program, which has the bug that the environment names, or none.
func TestExplore(t *testing.T) {
	verbstest.Explore(t, func(t *testing.T) { t.Log(transfer(t, os.Getenv(bugEnv))) })
}

// TestExploreFinds explores programs with a bug, in processes of their own.
func TestExploreFinds(t *testing.T) {
	for bug, want := range map[string][]string{
		"leaks":         {"--- FAIL: TestExplore/fail_errno=ENOMEM_nth=1_op=RegMR", "objects-left-at-exit"},
		"does not look": {"--- FAIL: TestExplore/fail_errno=ENOMEM_nth=1_op=RegMR", "key-unknown"},
		"goes on":       {"--- FAIL: TestExplore/wc_LOC_PROT_ERR_nth=1_op=SEND", "message 0 is wrong"},
		"waits":         {"panic: verbstest.Explore: the test has not ended after ", "explore_linux_test.go"},
	} {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestExplore$", "-test.short", "-test.timeout=60s")
			cmd.Env = append(os.Environ(), bugEnv+"="+bug)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Error("the bug is not found")
			}
			for _, w := range want {
				if !strings.Contains(string(out), w) {
					t.Errorf("want %q in\n%.8000s", w, out)
				}
			}
		})
	}
}
