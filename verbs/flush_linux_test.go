package verbs

import (
	"context"
	"errors"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// fileMR maps a file of a page in a directory and registers it with a right.
func fileMR(t *testing.T, pd *PD, dir string, access Access) (path string, mr *MR, err error) {
	t.Helper()
	f, err := os.CreateTemp(dir, "flush")
	must.Do(t, err)
	defer f.Close()
	t.Cleanup(func() { os.Remove(f.Name()) })
	must.Do(t, f.Truncate(4096))
	mem, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, unix.Munmap(mem)) })
	mr, err = pd.RegMREx(&MRAttr{Addr: uintptr(unsafe.Pointer(&mem[0])), Length: 4096, Access: access})
	return f.Name(), mr, err
}

// onStorage returns a directory on a file system with storage.
func onStorage(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{t.TempDir(), "/var/tmp", "."} {
		var fs unix.Statfs_t
		if unix.Statfs(dir, &fs) == nil && fs.Type != unix.TMPFS_MAGIC && unix.Access(dir, unix.W_OK) == nil {
			return dir
		}
	}
	t.Skip("no directory is on storage") // nothing here survives a loss of power
	return ""
}

// TestM6_FlushOfAFile writes to a mapped file of the peer, flushes it and reads the file.
func TestM6_FlushOfAFile(t *testing.T) {
	a, b := newConnected(t, ib.RC)
	rights := AccessLocalWrite | AccessRemoteWrite | AccessFlush
	path, mr, err := fileMR(t, b.pd, onStorage(t), rights)
	must.Do(t, err)
	defer func() { must.Do(t, mr.Dereg()) }()
	copy(a.mr.Bytes(), "data and pointer")
	to := SendWR{RemoteAddr: mr.Addr(), RKey: mr.RKey()}
	write, flush, pointer := to, to, to
	write.WRID, write.Opcode, write.SGList = 1, WRRDMAWrite, []SGE{a.mr.SGE(0, 8)}
	flush.WRID, flush.Opcode, flush.Flush = 2, WRFlush, Flush{Length: 8, Type: FlushPersistent}
	pointer.WRID, pointer.Opcode, pointer.SGList = 3, WRAtomicWrite, []SGE{a.mr.SGE(8, 8)}
	pointer.RemoteAddr += 8
	whole := to
	whole.WRID, whole.Opcode, whole.RemoteAddr, whole.Flush = 4, WRFlush, 0, Flush{Type: FlushGlobal | FlushPersistent, Level: FlushRegion}
	must.Do(t, a.qp.PostSend(write, flush, pointer, whole))
	want := []WCOpcode{WCRDMAWrite, WCFlush, WCAtomicWrite, WCFlush}
	for i, wc := range a.wait(t, 4) {
		if wc.WRID != uint64(i+1) || wc.Opcode != want[i] {
			t.Errorf("completion %d is %+v, want %v", i, wc, want[i])
		}
	}
	text, err := os.ReadFile(path)
	must.Do(t, err)
	if string(text[:16]) != "data and pointer" {
		t.Errorf("the file holds %q", text[:16])
	}
}

// TestM6_PersistenceNeedsAFile shows that memory that is lost cannot be registered for
// FLUSH_PERSISTENT, nor be given the right later, and that a file can.
func TestM6_PersistenceNeedsAFile(t *testing.T) {
	a, _ := newConnected(t, ib.RC)
	if mr, err := a.pd.RegMR(make([]byte, 4096), AccessFlushPersistent); err == nil || mr != nil {
		t.Errorf("Go's heap: %v, %v", mr, err)
	}
	wantInvalid(t, "the right is added", a.mr.ReregAccess(AccessFlushPersistent))
	must.Do(t, a.mr.ReregAccess(AccessLocalWrite|AccessFlushGlobal))
	var fs unix.Statfs_t
	if unix.Statfs("/dev/shm", &fs) == nil && fs.Type == unix.TMPFS_MAGIC {
		_, _, err := fileMR(t, a.pd, "/dev/shm", AccessFlushPersistent)
		wantInvalid(t, "a file in tmpfs", err)
	}
	_, mr, err := fileMR(t, a.pd, onStorage(t), AccessLocalWrite)
	must.Do(t, err)
	must.Do(t, mr.ReregAccess(AccessFlushPersistent))
	must.Do(t, mr.ReregPD(a.pd))
	wantInvalid(t, "other memory under the right", mr.ReregMemory(make([]byte, 4096)))
	must.Do(t, mr.Dereg())
}

func wantInvalid(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, ib.EINVAL) {
		t.Errorf("%s: %v, want EINVAL", what, err)
	}
}

// TestM6_FlushWhileBothSleep flushes a file while the programs on both sides sleep: although no packet
// arrives at the end of a write-back, the answer leaves at once.
func TestM6_FlushWhileBothSleep(t *testing.T) {
	const flushes = 30
	a, b := newUDPPair(t, ib.RC)
	connect(t, a, b, func(q *QPAttr) { q.Timeout = 22 }) // long: retransmissions do not help
	_, mr, err := fileMR(t, b.pd, onStorage(t), AccessLocalWrite|AccessRemoteWrite|AccessFlush)
	must.Do(t, err)
	defer func() { must.Do(t, mr.Dereg()) }()
	must.Do(t, b.cq.ReqNotify(false))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go b.ch.Get(ctx)
	for i := range flushes {
		must.Do(t, a.cq.ReqNotify(false))
		write := SendWR{Opcode: WRRDMAWrite, SGList: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()}
		flush := SendWR{Opcode: WRFlush, RemoteAddr: mr.Addr(), RKey: mr.RKey(), Flush: Flush{Length: 4096, Type: FlushPersistent}}
		must.Do(t, a.qp.PostSend(write, flush))
		for n := 0; n < 2; {
			get(t, a)
			must.Do(t, a.cq.ReqNotify(false))
			wcs := make([]WC, 2)
			k := poll(t, a.cq, wcs)
			for _, wc := range wcs[:k] {
				if wc.Status != ib.WCSuccess {
					t.Fatalf("FLUSH %d: %+v", i, wc)
				}
			}
			n += k
		}
	}
	if n := a.counter(t, "retrans_pkts"); n >= flushes/2 { // a few are possible on a busy machine
		t.Errorf("%d requests repeated for %d FLUSHes: their answers come too late", n, flushes)
	}
}
