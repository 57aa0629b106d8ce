//go:build linux

package ucm

import (
	"encoding/binary"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// TestCMLinkLocal checks that a link-local address names its interface where an ID is bound to it,
// as on Linux, with each command that tells it.
func TestCMLinkLocal(t *testing.T) {
	h := newHost(t, verbs.NewNetwork(), "fe80::1")
	u := h.open()
	for _, tt := range []struct {
		what  string
		scope uint32
		want  error
	}{{"without an interface", 0, ib.EINVAL}, {"with one", 7, nil}} {
		own, size := sockaddr(h.addr, 0)
		far, _ := sockaddr(addrOf("fe80::2"), port)
		binary.NativeEndian.PutUint32(own[24:], tt.scope)
		old, oldFar := sockaddrIn6(own[:sizeIn6]), sockaddrIn6(far[:sizeIn6])
		for i, err := range []error{
			u.do(2, bindIP{ID: u.create(rdmacm.TCP, 1), Addr: old}),
			u.do(20, bind{ID: u.create(rdmacm.TCP, 1), AddrSize: size, Addr: own}),
			u.do(3, resolveIP{ID: u.create(rdmacm.TCP, 1), TimeoutMS: 1000, Src: old, Dst: oldFar}),
			u.do(21, resolveAddr{ID: u.create(rdmacm.TCP, 1), TimeoutMS: 1000, SrcSize: size, DstSize: size, Src: own, Dst: far}),
		} {
			switch {
			case tt.want != nil:
				must.Fail(t, err, tt.want, []string{"bind IP", "bind", "resolve IP", "resolve address"}[i]+" "+tt.what)
			case err != nil:
				t.Errorf("command %d of four, %s: %v", i+1, tt.what, err)
			}
		}
	}
	// Where the peer is, is not asked.
	far, size := sockaddr(addrOf("fe80::2"), port)
	must.Do(t, u.do(21, resolveAddr{ID: u.create(rdmacm.TCP, 1), TimeoutMS: 1000, DstSize: size, Dst: far}))
}

// TestCMReserved checks that commands with reserved fields that are not 0 are refused.
func TestCMReserved(t *testing.T) {
	h, _ := newPair(t)
	u := h.open()
	id := u.create(rdmacm.TCP, 1)
	s, size := sockaddr(h.addr, port)
	must.Fail(t, u.do(20, bind{ID: id, AddrSize: size, Addr: s, Reserved: 1}), ib.EINVAL, "bind")
	must.Fail(t, u.do(21, resolveAddr{ID: id, TimeoutMS: 1000, DstSize: size, Dst: s, Reserved: 1}), ib.EINVAL, "resolve")
	must.Do(t, u.do(20, bind{ID: id, AddrSize: size, Addr: s}))
	must.Do(t, u.do(21, resolveAddr{ID: id, TimeoutMS: 1000, DstSize: size, Dst: s}))
}
