//go:build linux

package sysfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
)

// describe returns an adapter on the loopback interface.
func describe(addrs ...string) *Description {
	d := &Description{Name: "softhca0", Identity: device.Identity{NodeGUID: 0x0212_3456_789a_bcde}}
	for _, a := range addrs {
		d.Identity.Addrs = append(d.Identity.Addrs, netip.MustParseAddr(a))
		d.Identity.Interfaces = append(d.Identity.Interfaces, "lo")
	}
	return d
}

// images returns a directory for images that only this test has.
func images(t *testing.T) string {
	t.Helper()
	base := t.TempDir()
	must.Do(t, os.Chmod(base, 0o700))
	return base
}

func mustShow(t *testing.T, base string, d *Description, now time.Time, more ...*Description) *Image {
	t.Helper()
	ds := []Description{*d}
	for _, d := range more {
		ds = append(ds, *d)
	}
	p, err := show(base, ds, now)
	must.Do(t, err)
	t.Cleanup(func() { _ = p.Lock.Close() }) // tests close it too
	return p
}

// TestImage reads the files of an image as they are.
func TestImage(t *testing.T) {
	p := mustShow(t, images(t), describe("10.0.0.1", "fd00::1"), time.Now())
	dev := "sys/class/infiniband/softhca0/"
	for name, want := range map[string]string{
		dev + "node_guid":                          "0212:3456:789a:bcde",
		dev + "sys_image_guid":                     "0212:3456:789a:bcde",
		dev + "node_type":                          "1: CA",
		dev + "device/numa_node":                   "-1",
		dev + "ports/1/lid":                        "0x0",
		dev + "ports/1/link_layer":                 "Ethernet",
		dev + "ports/1/gids/0":                     "0000:0000:0000:0000:0000:ffff:0a00:0001",
		dev + "ports/1/gids/1":                     "fd00:0000:0000:0000:0000:0000:0000:0001",
		dev + "ports/1/gid_attrs/types/1":          "RoCE v2",
		dev + "ports/1/gid_attrs/ndevs/1":          "lo",
		dev + "ports/1/pkeys/0":                    "0xffff",
		dev + "ports/1/counters/symbol_error":      "0",
		"sys/class/infiniband_verbs/abi_version":   "6",
		"sys/class/infiniband_verbs/uverbs0/ibdev": "softhca0",
		"sys/class/infiniband_verbs/uverbs0/dev":   "231:192",
		"sys/class/infiniband_verbs/uverbs0/device/infiniband/softhca0/node_type": "1: CA",
	} {
		text, err := os.ReadFile(filepath.Join(p.Root, name))
		if err != nil || string(text) != want+"\n" {
			t.Errorf("%s: %q, %v; want %q", name, text, err, want)
		}
	}
	if link, err := os.Readlink(filepath.Join(p.Root, dev, "device/net/lo")); link != "/sys/class/net/lo" {
		t.Errorf("device/net/lo is %q, %v", link, err)
	}
	for _, name := range []string{dev + "ports/1/gids/2", dev + "ports/2", "sys/class/net"} {
		if _, err := os.Lstat(filepath.Join(p.Root, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
}

// value evaluates the spec of a file as the preload library does.
func value(t *testing.T, p *Image, name string) uint64 { return valueOf(t, p, "softhca0", name) }

func valueOf(t *testing.T, p *Image, device, name string) uint64 {
	t.Helper()
	spec, err := os.ReadFile(filepath.Join(p.Root, "sys/class/infiniband", device, "ports/1", name))
	must.Do(t, err)
	board, err := os.ReadFile(filepath.Join(p.Root, boardName))
	must.Do(t, err)
	text, ok := strings.CutPrefix(strings.TrimSpace(string(spec)), "@")
	if !ok {
		t.Fatalf("%s is %q, no spec", name, spec)
	}
	var number, attached, ended int
	place, text, _ := strings.Cut(text, ":")
	if _, err := fmt.Sscanf(place, "%d,%d,%d", &number, &attached, &ended); err != nil || ended+int(roomOfOne) > len(board) {
		t.Fatalf("%s is %q, no spec: %v", name, spec, err)
	}
	text, unit, divided := strings.Cut(text, "/")
	sum, divisor := uint64(0), uint64(1)
	for word := range strings.SplitSeq(text, "+") {
		var at int
		if _, err := fmt.Sscan(word, &at); err != nil || at%8 != 0 || at+8 > int(roomOfOne) {
			t.Fatalf("%s: %q is no word of a board: %v", name, word, err)
		}
		sum += binary.LittleEndian.Uint64(board[attached+at:]) + binary.LittleEndian.Uint64(board[ended+at:])
	}
	if divided {
		if _, err := fmt.Sscan(unit, &divisor); err != nil {
			t.Fatal(err)
		}
	}
	return sum / divisor
}

// TestBoardWords counts as an adapter does, and finds each count under its name.
func TestBoardWords(t *testing.T) {
	p := mustShow(t, images(t), describe("127.0.0.1"), time.Now())
	b, err := Attach(p.Root, 0)
	must.Do(t, err)
	if _, err := Attach(p.Root, 0); !errors.Is(err, ib.EBUSY) {
		t.Errorf("the board is attached twice: %v", err)
	}
	b.Engine.SentPkts, b.Engine.RDMARecvs = 11, 12
	b.Engine.Drops[counters.DropICRC], b.Engine.Drops[counters.DropMalformed] = 5, 6
	b.Engine.Drops[counters.NumDrops-1] = 1 << 40
	b.Port.Sent(3, 4096)
	b.Port.Received(7, 8192)
	b.Port.SendErrors.Add(2)
	b.Port.Overflows.Add(9)
	b.Port.Near[fabric.NearSent].Add(13)
	b.Port.Near[fabric.NearMemory].Add(1 << 20)
	b.Down.Store(1)
	must.Do(t, b.Close())
	for name, want := range map[string]uint64{
		"hw_counters/sent_pkts": 11, "hw_counters/rdma_recvs": 12, "hw_counters/rcvd_pkts": 0, "hw_counters/send_err": 2,
		"hw_counters/drop_icrc_errors": 5, "hw_counters/drop_" + (counters.NumDrops - 1).String(): 1 << 40,
		"counters/port_xmit_packets": 3, "counters/port_xmit_data": 1024, "counters/port_rcv_packets": 7,
		"counters/port_rcv_data": 2048, "counters/port_rcv_errors": 11, "counters/port_xmit_discards": 2,
		"counters/excessive_buffer_overrun_errors": 9, "hw_counters/near_sent_packets": 13, "hw_counters/near_memory_bytes": 1 << 20,
	} {
		if got := value(t, p, name); got != want {
			t.Errorf("%s is %d, not %d", name, got, want)
		}
	}
	again, err := Attach(p.Root, 0)
	must.Do(t, err)
	if again.Engine.SentPkts != 11 || again.Down.Load() != 1 {
		t.Error("the next process to attach does not find what was counted")
	}
	must.Do(t, again.Close())
}

// TestSeveral shows several adapters in one image. Each counts for itself, in a
// process of its own or not.
func TestSeveral(t *testing.T) {
	second := describe("127.0.0.2")
	second.Name = "softhca1"
	p := mustShow(t, images(t), describe("127.0.0.1"), time.Now(), second)
	for name, want := range map[string]string{
		"infiniband/softhca0/ports/1/gids/0": "0000:0000:0000:0000:0000:ffff:7f00:0001",
		"infiniband/softhca1/ports/1/gids/0": "0000:0000:0000:0000:0000:ffff:7f00:0002",
		"infiniband/softhca1/ports/1/gids/1": "0000:0000:0000:0000:0000:ffff:7f00:0002",
		"infiniband_verbs/uverbs1/ibdev":     "softhca1",
		"infiniband_verbs/uverbs1/dev":       "231:193",
	} {
		if text, err := os.ReadFile(filepath.Join(p.Root, "sys/class", name)); err != nil || string(text) != want+"\n" {
			t.Errorf("%s: %q, %v; want %q", name, text, err, want)
		}
	}
	var boards [2]*Attached
	for i := range boards {
		var err error
		if boards[i], err = Attach(p.Root, i); err != nil {
			t.Fatal(err)
		}
		boards[i].Engine.SentPkts = uint64(11 + i)
	}
	if _, err := Attach(p.Root, 1); !errors.Is(err, ib.EBUSY) {
		t.Errorf("a board is attached twice: %v", err)
	}
	if _, err := Attach(p.Root, 2); !errors.Is(err, ib.EINVAL) {
		t.Errorf("a third board is attached: %v", err)
	}
	must.Do(t, errors.Join(boards[0].Close(), boards[1].Close()))
	for i, want := range []uint64{11, 12} {
		if got := valueOf(t, p, fmt.Sprintf("softhca%d", i), "hw_counters/sent_pkts"); got != want {
			t.Errorf("adapter %d has sent %d packets, want %d", i, got, want)
		}
	}
}

// TestAttachRefuses checks that a board of another layout is not mapped.
func TestAttachRefuses(t *testing.T) {
	p := mustShow(t, images(t), describe("127.0.0.1"), time.Now())
	name := filepath.Join(p.Root, boardName)
	text, err := os.ReadFile(name)
	must.Do(t, err)
	text[0]++
	for why, b := range map[string][]byte{"another layout": text, "a short file": text[:100], "an empty file": nil} {
		must.Do(t, os.WriteFile(name, b, 0o600))
		if _, err := Attach(p.Root, 0); !errors.Is(err, ib.EINVAL) {
			t.Errorf("%s: %v", why, err)
		}
	}
	if _, err := Attach(t.TempDir(), 0); err == nil {
		t.Error("no board is attached")
	}
}

// TestShared checks that all users of an adapter share one image, that its counters
// restart at 0 after the last user has left, and that another adapter has another image.
func TestShared(t *testing.T) {
	base := images(t)
	first := mustShow(t, base, describe("127.0.0.1"), time.Now())
	b, err := Attach(first.Root, 0)
	must.Do(t, err)
	b.Engine.SentPkts = 1
	second := mustShow(t, base, describe("127.0.0.1"), time.Now())
	if second.Root != first.Root || value(t, second, "hw_counters/sent_pkts") != 1 {
		t.Error("a second user has another image, or its counters begin anew")
	}
	if other := mustShow(t, base, describe("127.0.0.2"), time.Now()); other.Root == first.Root {
		t.Error("two adapters have one image")
	}
	must.Do(t, errors.Join(b.Close(), first.Lock.Close(), second.Lock.Close()))
	third := mustShow(t, base, describe("127.0.0.1"), time.Now())
	if third.Root != first.Root || value(t, third, "hw_counters/sent_pkts") != 0 {
		t.Error("after the last user the counters do not begin anew")
	}
}

// TestSweep removes what was left, but nothing that is in use or was not long ago.
func TestSweep(t *testing.T) {
	base := images(t)
	now := time.Now()
	old := mustShow(t, base, describe("127.0.0.1"), now.Add(-2*keep))
	used := mustShow(t, base, describe("127.0.0.2"), now.Add(-2*keep))
	young := mustShow(t, base, describe("127.0.0.3"), now.Add(-keep+time.Minute))
	due := mustShow(t, base, describe("127.0.0.5"), now.Add(-keep))
	must.Do(t, errors.Join(old.Lock.Close(), young.Lock.Close(), due.Lock.Close(), os.Mkdir(filepath.Join(base, "new-123"), 0o700)))
	last := mustShow(t, base, describe("127.0.0.4"), now)
	found, err := filepath.Glob(filepath.Join(base, "*"))
	must.Do(t, err)
	want := []string{filepath.Join(base, "setup")}
	for _, p := range []*Image{used, young, last} {
		want = append(want, p.Root, p.Root+".lock")
	}
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}

// TestShowAtOnce has many make an image at the same time.
func TestShowAtOnce(t *testing.T) {
	base := images(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			p, err := show(base, []Description{*describe("127.0.0.1")}, time.Now())
			if err != nil {
				t.Error(err)
				return
			}
			if n := value(t, p, "hw_counters/sent_pkts"); n != 0 {
				t.Errorf("%d packets sent", n)
			}
			_ = p.Lock.Close() // which only unlocks it
		})
	}
	wg.Wait()
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"softhca0": true, "a_b-1": true, "": false, "a/b": false, "..": false, "a b": false,
		strings.Repeat("x", maxName): true, strings.Repeat("x", maxName+1): false,
	} {
		if err := (&Description{Name: name}).Check(); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestFewInterfacesAreShown shows a device on more interfaces than its directory
// shows, some of them twice.
func TestFewInterfacesAreShown(t *testing.T) {
	d := describe()
	for i := range maxInterfaces + 1 {
		name := fmt.Sprint("eth", i)
		d.Identity.Interfaces = append(d.Identity.Interfaces, name, name)
	}
	var shown []string
	for _, e := range host(d, "device/") {
		if name, ok := strings.CutPrefix(e.path, "device/net/"); ok {
			shown = append(shown, name)
		}
	}
	if len(shown) != maxInterfaces || shown[0] != "eth0" || shown[maxInterfaces-1] != fmt.Sprint("eth", maxInterfaces-1) {
		t.Errorf("%d interfaces are shown: %q, want the first %d", len(shown), shown, maxInterfaces)
	}
}

func TestCPUMask(t *testing.T) {
	for list, want := range map[string]string{
		"0": "00000001", "0-3": "0000000f", "0-1,33": "00000002,00000003", "": "00000000", "x,5": "00000020", "3-1": "00000000",
		"0-99999999": "00000000", "8192": "00000000", "8190-8192": "00000000",
		"8191": "80000000" + strings.Repeat(",00000000", 255), // the last one
	} {
		if got := cpuMask(list); got != want {
			t.Errorf("%q is %s, want %s", list, got, want)
		}
	}
}
