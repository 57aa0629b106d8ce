//go:build unix

package verbs

import (
	"bytes"
	"errors"
	"math"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// TestForeignMemory checks that memory outside the Go heap can be a region: here pages that
// were mapped from the system, which a peer's RDMA WRITE changes.
func TestForeignMemory(t *testing.T) {
	pages, err := syscall.Mmap(-1, 0, 8192, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	must.Do(t, err)
	n := NewNetwork()
	a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: n}, ib.RC)
	b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: n}, ib.RC)
	connect(t, a, b, nil)
	mr, err := b.pd.RegMREx(&MRAttr{Addr: uintptr(unsafe.Pointer(&pages[0])), Length: 8192, Access: ib.AccessLocalWrite | ib.AccessRemoteWrite})
	must.Do(t, err)
	copy(a.mr.Bytes(), "into mapped pages")
	err = a.qp.PostSend(SendWR{
		Opcode: ib.WRRDMAWrite, SGList: []SGE{a.mr.SGE(0, 17)}, RemoteAddr: mr.Addr() + 5000, RKey: mr.RKey(),
	})
	must.Do(t, err)
	a.wait(t, 1)
	must.Do(t, mr.Dereg())
	if !bytes.HasPrefix(pages[5000:], []byte("into mapped pages")) {
		t.Errorf("the pages hold %q", pages[5000:5020])
	}
	must.Do(t, syscall.Munmap(pages))
	for what, attr := range map[string]*MRAttr{
		"a range that wraps": {Addr: math.MaxUint - 100, Length: 200},
		"both kinds":         {Addr: 4096, Length: 8, Buf: make([]byte, 8)},
		"nothing":            nil,
	} {
		if _, err := b.pd.RegMREx(attr); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v, want EINVAL", what, err)
		}
	}
}

// TestMemoryThatIsGone unmaps the pages of a region in every role of memory: the
// operation fails with the status that names the side of the missing memory, and the
// process continues.
func TestMemoryThatIsGone(t *testing.T) {
	for _, c := range []struct {
		what         string
		op           ib.WROpcode
		remote       bool        // the peer's memory is gone, not the poster's
		want, atPeer ib.WCStatus // atPeer: of the peer's receive
	}{
		{"SEND from", ib.WRSend, false, ib.WCLocProtErr, ib.WCSuccess},
		{"WRITE from", ib.WRRDMAWrite, false, ib.WCLocProtErr, ib.WCSuccess},
		{"READ into", ib.WRRDMARead, false, ib.WCLocProtErr, ib.WCSuccess},
		{"FETCH&ADD into", ib.WRAtomicFetchAdd, false, ib.WCLocProtErr, ib.WCSuccess},
		{"receive into", ib.WRSend, true, ib.WCRemOpErr, ib.WCLocProtErr},
		{"WRITE to", ib.WRRDMAWrite, true, ib.WCRemAccessErr, ib.WCSuccess},
		{"READ of", ib.WRRDMARead, true, ib.WCRemAccessErr, ib.WCSuccess},
		{"COMPARE&SWAP at", ib.WRAtomicCmpAndSwp, true, ib.WCRemAccessErr, ib.WCSuccess},
		{"FETCH&ADD at", ib.WRAtomicFetchAdd, true, ib.WCRemAccessErr, ib.WCSuccess},
	} {
		t.Run(c.what, func(t *testing.T) {
			n := NewNetwork()
			a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: n}, ib.RC)
			b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: n}, ib.RC)
			connect(t, a, b, nil)
			owner := a
			if c.remote {
				owner = b
			}
			pages, mr := mappedMR(t, owner.pd)
			local, remote := a.mr.SGE(0, 8), b.mr
			if c.remote {
				remote = mr
			} else {
				local = mr.SGE(0, 8)
			}
			if c.op == ib.WRSend {
				must.Do(t, b.qp.PostRecv(RecvWR{WRID: 7, SGList: []SGE{remote.SGE(0, 8)}}))
			}
			must.Do(t, unix.Mprotect(pages, syscall.PROT_NONE))
			err := a.qp.PostSend(SendWR{Opcode: c.op, SGList: []SGE{local}, RemoteAddr: remote.Addr(), RKey: remote.RKey()})
			must.Do(t, err)
			if wc := a.take(t, 1)[0]; wc.Status != c.want {
				t.Errorf("%s memory that is gone completes with %v, want %v", c.what, wc.Status, c.want)
			}
			if c.atPeer != ib.WCSuccess {
				if wc := b.take(t, 1)[0]; wc.Status != c.atPeer || wc.WRID != 7 {
					t.Errorf("the receive into memory that is gone completes as %+v, want %v", wc, c.atPeer)
				}
			}
		})
	}
}

// mappedMR returns pages mapped from the system and a region of them with all rights.
func mappedMR(t *testing.T, pd *PD) ([]byte, *MR) {
	t.Helper()
	pages, err := syscall.Mmap(-1, 0, 8192, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	must.Do(t, err)
	t.Cleanup(func() { _ = syscall.Munmap(pages) }) // the end of the process unmaps them at the latest
	mr, err := pd.RegMREx(&MRAttr{Addr: uintptr(unsafe.Pointer(&pages[0])), Length: uint64(len(pages)), Access: ib.AccessLocalWrite | ib.AccessRemote})
	must.Do(t, err)
	return pages, mr
}
