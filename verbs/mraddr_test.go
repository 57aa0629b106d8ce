//go:build unix

package verbs

import (
	"bytes"
	"errors"
	"math"
	"syscall"
	"testing"
	"unsafe"

	"github.com/softhca/softhca/ib"
)

// TestRegMRAddr shows that memory which is not Go's serves as a region: here
// pages mapped from the system, written by a peer's RDMA WRITE.
func TestRegMRAddr(t *testing.T) {
	pages, err := syscall.Mmap(-1, 0, 8192, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	n := NewNetwork()
	a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: n}, ib.RC)
	b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: n}, ib.RC)
	connect(t, a, b, nil)
	mr, err := b.pd.RegMRAddr(uintptr(unsafe.Pointer(&pages[0])), 8192, ib.AccessLocalWrite|ib.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	copy(a.mr.Bytes(), "into mapped pages")
	err = a.qp.PostSend(SendWR{
		Opcode: ib.WRRDMAWrite, SGList: []SGE{a.mr.SGE(0, 17)}, RemoteAddr: mr.Addr() + 5000, RKey: mr.RKey(),
	})
	if err != nil {
		t.Fatal(err)
	}
	a.wait(t, 1)
	if err := mr.Dereg(); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(pages[5000:], []byte("into mapped pages")) {
		t.Errorf("the pages hold %q", pages[5000:5020])
	}
	if err := syscall.Munmap(pages); err != nil {
		t.Fatal(err)
	}
	if _, err := b.pd.RegMRAddr(math.MaxUint-100, 200, 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a range that wraps: %v, want EINVAL", err)
	}
}
