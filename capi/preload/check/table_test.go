//go:build linux

package check

import (
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/restrack/file"
)

// addrs counts the adapters of the tests: each has an address of its own, so that no test sees the
// tables of another one.
var addrs atomic.Uint32

// boardSize is the size of an adapter's counters.
const boardSize = unsafe.Sizeof(device.Board{})

// newAddr returns an address that no other test uses.
func newAddr() netip.Addr {
	n := addrs.Add(1)
	return netip.AddrFrom4([4]byte{127, 77, byte(n >> 8), byte(n)})
}

// newTable publishes a table of this process for the adapter with an address, with a slot of QPNs.
func newTable(t *testing.T, addr netip.Addr, slot uint64) *file.File {
	t.Helper()
	return publish(t, restrack.Process{Addr: addr.As16(), Slot: slot})
}

// publish publishes a table of this process.
func publish(t *testing.T, p restrack.Process) *file.File {
	t.Helper()
	f, err := file.Create(boardSize)
	must.Do(t, err)
	copy(p.Device[:], "softhca0")
	must.Do(t, f.Publish(p))
	t.Cleanup(func() { _ = f.Close() }) // the test may have removed it
	return f
}

// addQP adds a queue pair.
func addQP(f *file.File, i restrack.QPInfo, c restrack.QPCounts) {
	h := restrack.Add[restrack.QPInfo, restrack.QPCounts](f.Table(), restrack.KindQP, &i)
	h.Counts = c
}

// fill adds objects as ibv_rc_pingpong and rping have them, and some that only Go programs have.
func fill(f *file.File, addr netip.Addr) {
	t, peer := f.Table(), netip.AddrFrom4([4]byte{127, 0, 0, 9})
	pd := restrack.Add[restrack.PDInfo, restrack.PDCounts](t, restrack.KindPD, &restrack.PDInfo{Num: 1})
	pd.Counts.Users = 3
	for n, depth := range []uint32{512, 64} {
		restrack.Add[restrack.CQInfo, restrack.CQCounts](t, restrack.KindCQ, &restrack.CQInfo{Num: uint32(n + 1), Depth: depth})
	}
	for n, form := range []uint8{restrack.FormRegion, restrack.FormWindow, restrack.FormDeviceMemory} {
		restrack.Add[restrack.MRInfo, restrack.NoCounts](t, restrack.KindMR, &restrack.MRInfo{Num: uint32(n + 1), PD: 1, Form: form, Length: 4096 << n})
	}
	restrack.Add[restrack.SRQInfo, restrack.NoCounts](t, restrack.KindSRQ, &restrack.SRQInfo{Num: 1, PD: 1, MaxWR: 100})
	restrack.Add[restrack.SRQInfo, restrack.NoCounts](t, restrack.KindSRQ, &restrack.SRQInfo{Num: 2, PD: 1, XRC: 1, CQ: 2, XRCD: 1, Number: 9})
	addQP(f, restrack.QPInfo{Num: 17, PD: 1, SendCQ: 1, RecvCQ: 1, Type: uint8(ib.RC), State: uint8(ib.RTS), Mig: uint8(ib.ARMED), Peer: 18}, restrack.QPCounts{
		SendPSN: 0xabcdef, RecvPSN: 5, SentPackets: 7, SentBytes: 4096,
	})
	addQP(f, restrack.QPInfo{Num: 20, PD: 1, SendCQ: 1, RecvCQ: 2, Type: uint8(ib.UD), State: uint8(ib.INIT)}, restrack.QPCounts{})
	addQP(f, restrack.QPInfo{Num: 21, PD: 1, SendCQ: 2, RecvCQ: 2, SRQ: 1, Type: uint8(ib.UC), State: uint8(ib.RESET)}, restrack.QPCounts{})
	addQP(f, restrack.QPInfo{Num: 22, PD: 1, SendCQ: 2, RecvCQ: 2, SRQ: 1, Type: uint8(ib.RD), State: uint8(ib.ERR)}, restrack.QPCounts{})
	addQP(f, restrack.QPInfo{Num: 24, PD: 1, SRQ: 1, Type: uint8(ib.XRCTgt), State: uint8(ib.RTR)}, restrack.QPCounts{})
	addQP(f, restrack.QPInfo{Num: 3, PD: 1, Type: uint8(ib.EEC), State: uint8(ib.RTS)}, restrack.QPCounts{})
	for _, id := range []restrack.CMIDInfo{
		{Num: 1, State: uint8(cm.Listen), Listener: 1, ServiceID: 0x1061c06, LocalPort: 7174},
		{Num: 2, State: uint8(cm.Established), QPN: 17, Type: uint8(ib.RC), ServiceID: 0x1061c06, Local: addr.As16(), Remote: peer.As16(), LocalPort: 7174, RemotePort: 40000},
		{Num: 3, State: uint8(cm.Timewait), ServiceID: 0x1111c06, Local: netip.IPv6Loopback().As16(), Remote: netip.IPv6Loopback().As16(), RemotePort: 7174},
		{Num: 4, State: uint8(cm.SIDRReqSent), ServiceID: 1 << 40, Local: addr.As16(), Remote: peer.As16()},
	} {
		restrack.Add[restrack.CMIDInfo, restrack.NoCounts](t, restrack.KindCMID, &id)
	}
}

// TestW1_Abilities compares the abilities that netlink shows with those of libibverbs.
func TestW1_Abilities(t *testing.T) {
	names := func(path, from, to, prefix string) (all []string) {
		t.Helper()
		text, err := os.ReadFile(path)
		must.Do(t, err)
		_, rest, found := strings.Cut(string(text), from)
		list, _, ended := strings.Cut(rest, to)
		if !found || !ended {
			t.Fatalf("%s has no %q", path, from)
		}
		for _, n := range regexp.MustCompile(prefix+`([A-Z0-9_]+)`).FindAllStringSubmatch(list, -1) {
			all = append(all, n[1])
		}
		slices.Sort(all)
		return all
	}
	want := names("../../libibverbs/context.c", ".device_cap_flags =", ",\n", "IBV_DEVICE_")
	got := names("../device.c", "abilities =", ";", "CAP_")
	if len(got) == 0 || !slices.Equal(got, want) {
		t.Errorf("netlink shows %v, libibverbs %v", got, want)
	}
}
