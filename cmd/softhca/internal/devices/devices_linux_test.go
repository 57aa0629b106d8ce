//go:build !portable

package devices

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// probe describes the adapter on an address.
func probe(t *testing.T, addr string) Device {
	t.Helper()
	d, err := Probe(addr, verbs.Config{Addr: addr})
	if err != nil || d.Error != "" || d.Port == nil || d.Attr == nil {
		t.Fatalf("%+v, %v", d, err)
	}
	return d
}

// TestProbeDisturbsNobody describes the adapter of an address that is free, that one
// process has, and that several share. The description is always the same and names
// the processes; probing takes no slot from later processes.
func TestProbeDisturbsNobody(t *testing.T) {
	const addr = "127.83.19.9"
	free := probe(t, addr)
	if free.Share != nil {
		t.Errorf("nobody is there: %+v", free.Share)
	}
	open := func() *verbs.Context {
		c, err := verbs.Open(verbs.Config{Addr: addr})
		must.Do(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for i := range 3 {
		is, err := open().QueryDevice()
		must.Do(t, err)
		d := probe(t, addr)
		if d.Share == nil || len(d.Share.Processes) != i+1 || int(d.Share.Processes[i].Slot) != i || d.Share.Processes[i].PID != os.Getpid() {
			t.Errorf("%d are on: %+v", i+1, d.Share)
		}
		if *d.Attr != is || *d.Attr != *free.Attr || d.Port.GIDs[0] != free.Port.GIDs[0] || d.Port.RecvBuffer != free.Port.RecvBuffer || d.Port.GSOSegments != free.Port.GSOSegments {
			t.Errorf("%+v %+v is not what it was: %+v %+v", d.Attr, d.Port, free.Attr, free.Port)
		}
		var text strings.Builder
		if err := Text(&text, []Device{d}, false); err != nil || strings.Contains(text.String(), "not usable") || !strings.Contains(text.String(), "(process ") {
			t.Errorf("%s, %v", &text, err)
		}
	}
}

// TestProbeTaken describes the adapter of an address that cannot be shared: one
// that a process has exclusively, and one whose port another program has.
func TestProbeTaken(t *testing.T) {
	c, err := verbs.Open(verbs.Config{Addr: "127.83.19.10", Exclusive: true})
	must.Do(t, err)
	defer c.Close()
	other, err := net.ListenPacket("udp", "127.83.19.11:4791")
	must.Do(t, err)
	defer other.Close()
	for _, addr := range []string{"127.83.19.10", "127.83.19.11"} {
		if d, err := Probe(addr, verbs.Config{Addr: addr}); !errors.Is(err, ib.EADDRINUSE) || !strings.Contains(d.Error, addr) || d.Port != nil {
			t.Errorf("%s: %+v, %v", addr, d, err)
		}
	}
}
