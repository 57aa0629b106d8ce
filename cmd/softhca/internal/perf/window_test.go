package perf

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// withWindows returns a plan with windows for each operation that uses a remote key.
func withWindows() (plans []Plan) {
	for op := range numOps {
		if op.info().right != 0 && op != Bind {
			plans = append(plans, Plan{Op: op, Window: true})
		}
	}
	return plans
}

// TestM2_Windows measures through windows.
func TestM2_Windows(t *testing.T) {
	r := newRig(t)
	plans := withWindows()
	if len(plans) != 6 {
		t.Errorf("%d operations use windows", len(plans))
	}
	plans = append(plans, Plan{Op: Write, Window: true, Latency: true}, Plan{Op: Write, Type: ib.UC, Window: true, Limit: 100_000})
	for _, p := range plans {
		if p.QPs = 3; p.Latency {
			p.QPs = 1
		}
		p.Duration = 30 * time.Millisecond
		s, client, server := r.long(t, p, moving)
		if client != nil || server != nil {
			t.Fatalf("%+v: client: %v; server: %v", p, client, server)
		}
		if !s.Window || s.Messages == 0 || !strings.Contains(s.String(), " with a memory window in ") && !strings.Contains(s.String(), " with memory windows in ") {
			t.Errorf("%+v: %v", p, s)
		}
	}
}

// TestM2_WindowsGiveOneRight checks that a server offers a different key for each queue pair, which
// gives one right, and that the key of its memory gives no right.
func TestM2_WindowsGiveOneRight(t *testing.T) {
	for _, p := range withWindows() {
		p.QPs = 2
		must.Do(t, p.Check())
		r := newRig(t)
		client, err := newLocalSide(r.client, p, false, true)
		must.Do(t, err)
		server, err := newLocalSide(r.server, p, true, true)
		must.Do(t, err)
		at := client.side()
		must.Do(t, server.connect(&at, ib.MTU1024))
		must.Do(t, server.bind())
		offered := server.side()
		must.Do(t, client.connect(&offered, ib.MTU1024))
		for i, e := range offered.QPs {
			if e.RKey == 0 || e.RKey == offered.RKey || i > 0 && e.RKey == offered.QPs[0].RKey {
				t.Errorf("%v: queue pair %d has the key %#x, the memory %#x", p.Op, i, e.RKey, offered.RKey)
			}
		}
		rights := server.windowOf(0).Access
		if rights != p.Op.info().right || server.access()&ib.AccessRemote != 0 {
			t.Errorf("%v: a window with %v of memory with %v", p.Op, rights, server.access())
		}
		// With the key of the memory, and with the key of another queue pair's window.
		for i, key := range []uint32{offered.RKey, offered.QPs[0].RKey} {
			wr := client.begin(i, &offered)
			wr.RKey = ib.RKey(key)
			must.Do(t, client.qps[i].PostSend(wr))
			if err := client.bound(); err == nil || !strings.Contains(err.Error(), "REM_ACCESS_ERR") {
				t.Errorf("%v with a wrong key: %v", p.Op, err)
			}
		}
		must.Do(t, errors.Join(client.Close(), server.Close()))
	}
}

// TestM2_RefusedBind: the server reports a bind that fails.
func TestM2_RefusedBind(t *testing.T) {
	p := Plan{Op: Write, Window: true}
	must.Do(t, p.Check())
	r := newRig(t)
	server, err := newLocalSide(r.server, p, true, true)
	must.Do(t, err)
	must.Do(t, server.connect(&valid(Write).side, ib.MTU1024))
	must.Do(t, server.mr.ReregAccess(ib.AccessLocalWrite))
	if err := server.bind(); err == nil || !strings.Contains(err.Error(), "queue pair 0") || !strings.Contains(err.Error(), "MW_BIND_ERR") {
		t.Errorf("the server says %v", err)
	}
	must.Do(t, server.Close())
}

// TestM2_ServerWithoutWindows: the client reports that a server ignores the request for windows.
func TestM2_ServerWithoutWindows(t *testing.T) {
	r := newRig(t)
	a, b := net.Pipe()
	result := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), r.client, a, Plan{Op: Write, Window: true, Duration: time.Second}, nil)
		result <- err
	}()
	ctl := newControl(b)
	var q request
	must.Do(t, ctl.receive(&q, replyDue))
	if !q.Window {
		t.Error("the request says nothing of windows")
	}
	must.Do(t, ctl.send(&offer{MTU: q.MTU, side: valid(Write).side}))
	if err := <-result; !errors.Is(err, errNoWindow) {
		t.Errorf("the client says %v", err)
	}
}

// TestM2_WindowBounds checks that plans in which a window cannot be used are refused, and that the
// error says why.
func TestM2_WindowBounds(t *testing.T) {
	for _, c := range []struct {
		plan Plan
		want string
	}{
		{Plan{Op: Send, Window: true}, "no part in send"},
		{Plan{Op: Flush, Window: true}, "no part in flush"},
		{Plan{Op: Bind, Window: true}, "already binds"},
		{Plan{Op: Write, Type: ib.XRCIni, Window: true}, "--type xrc"},
		{Plan{Op: Write, Type: ib.RD, Window: true}, "--type rd"},
		{Plan{Op: Bind, Type: ib.RD}, "RD has no bind"},
		{Plan{Op: Bind, Type: ib.XRCIni}, "XRC has no bind"},
	} {
		if err := c.plan.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.plan, err)
		}
	}
}

// TestM2_BindAndInvalidate checks that a lane alternately binds and invalidates, each bind with the
// next key, across posts of several requests.
func TestM2_BindAndInvalidate(t *testing.T) {
	c := cycle{binds: make([]verbs.MWBind, 3), key: 0x500}
	var got []verbs.SendWR
	for n := 0; n < 9; n += 3 {
		wrs := make([]verbs.SendWR, 3)
		c.fill(wrs, uint64(n))
		for _, wr := range wrs {
			if wr.Opcode == ib.WRBindMW {
				wr.InvRKey = wr.Bind.RKey // the next list uses the bind again
			}
			got = append(got, wr)
		}
	}
	for i, wr := range got {
		op, key := ib.WRBindMW, ib.RKey(0x501+i/2)
		if i%2 != 0 {
			op = ib.WRLocalInv
		}
		if wr.Opcode != op || wr.InvRKey != key {
			t.Errorf("request %d is %v of key %#x, want %v of %#x", i, wr.Opcode, uint32(wr.InvRKey), op, uint32(key))
		}
	}
	s, client, server := newRig(t).long(t, Plan{Op: Bind, Duration: 30 * time.Millisecond}, moving)
	if client != nil || server != nil || s.Client.Sent != 0 || s.Gbps != 0 || s.Mpps <= 0 || strings.Contains(s.String(), "b/s") {
		t.Errorf("client: %v; server: %v; %v", client, server, s)
	}
}
