package verbs

import (
	"bytes"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// TestM3_AddressSpace shows that a peer's WRITE reaches memory that no region was made for, by its
// own address, in a region of the whole address space; a WRITE to memory that is not mapped fails.
func TestM3_AddressSpace(t *testing.T) {
	a, b := newPair(t, ib.RC)
	connect(t, a, b, nil)
	all := &MRAttr{Length: math.MaxUint64, Access: ib.AccessLocalWrite | ib.AccessRemote}
	_, err := b.pd.RegMREx(all)
	must.Fail(t, err, ib.EINVAL, "the address space without ON_DEMAND")
	all.Access |= ib.AccessOnDemand
	mr, err := b.pd.RegMREx(all)
	must.Do(t, err)
	if mr.Addr() != 0 || mr.Len() != math.MaxUint64 || mr.Bytes() != nil {
		t.Errorf("the region has %d bytes at %#x", mr.Len(), mr.Addr())
	}
	pages, _ := mappedMR(t, b.pd)
	at := uint64(address(pages))
	copy(a.mr.Bytes(), "anywhere")
	must.Do(t, a.qp.PostSend(SendWR{Opcode: ib.WRRDMAWrite, SGList: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: at + 4092, RKey: mr.RKey()}))
	a.wait(t, 1)
	if !bytes.HasPrefix(pages[4092:], []byte("anywhere")) {
		t.Errorf("the WRITE across two pages left %q", pages[4092:4100])
	}
	must.Do(t, unix.Mprotect(pages, syscall.PROT_READ))
	must.Do(t, a.qp.PostSend(SendWR{Opcode: ib.WRRDMAWrite, SGList: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: at, RKey: mr.RKey()}))
	if wc := a.take(t, 1)[0]; wc.Status != ib.WCRemAccessErr {
		t.Errorf("a WRITE to read-only memory completes with %v, want %v", wc.Status, ib.WCRemAccessErr)
	}
}

// TestM3_NullRegion scatters a READ over a buffer, a null region and the buffer again, and sends from
// a null region.
func TestM3_NullRegion(t *testing.T) {
	a, b := newPair(t, ib.RC)
	connect(t, a, b, nil)
	null, err := a.pd.AllocNullMR()
	must.Do(t, err)
	copy(b.mr.Bytes(), bytes.Repeat([]byte("abcdefgh"), 2000))
	hole := SGE{Addr: 12345, Length: 9996, LKey: null.LKey()}
	must.Do(t, a.qp.PostSend(SendWR{Opcode: ib.WRRDMARead, SGList: []SGE{a.mr.SGE(0, 4), hole}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}))
	a.wait(t, 1)
	must.Do(t, a.qp.PostSend(SendWR{Opcode: ib.WRRDMAWrite, SGList: []SGE{a.mr.SGE(0, 2), hole}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}))
	a.wait(t, 1)
	want := append([]byte("ab"), make([]byte, 9996)...)
	if got := b.mr.Bytes()[:10000]; string(a.mr.Bytes()[:5]) != "abcd\x00" || !bytes.Equal(got[:9998], want) || string(got[9998:]) != "gh" {
		t.Errorf("READ left %q, then WRITE %q ... %q", a.mr.Bytes()[:5], got[:5], got[9990:])
	}
	if null.RKey() != 0 || null.Len() != math.MaxUint64 {
		t.Errorf("the null region has rkey %#x and %d bytes", null.RKey(), null.Len())
	}
	must.Fail(t, null.ReregAccess(ib.AccessLocalWrite|ib.AccessRemoteRead), ib.EINVAL, "remote rights for a null region")
	must.Do(t, null.Dereg())
}

// TestM3_Rereg changes the translation, the protection domain and the rights of a region in all
// combinations, with legal and illegal values, and compares the region and its domains with a
// model after each call.
func TestM3_Rereg(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	a, b := newPair(t, ib.RC)
	other, err := a.ctx.AllocPD()
	must.Do(t, err)
	pds := []*PD{a.pd, other}
	rights := []Access{0, ib.AccessLocalWrite, ib.AccessLocalWrite | ib.AccessRemote, ib.AccessRemoteRead, ib.AccessRemoteWrite, ib.AccessOnDemand | ib.AccessRelaxedOrdering}
	is := MRAttr{Buf: make([]byte, 16), Access: ib.AccessLocalWrite}
	mr, err := a.pd.RegMREx(&is)
	must.Do(t, err)
	in, addr := a.pd, uint64(address(is.Buf))
	for step := range 2000 {
		what := ReregFlags(rng.IntN(9))
		to := append(pds, nil, b.pd)[rng.IntN(4)]
		now := MRAttr{Buf: make([]byte, 1+rng.IntN(64)), Access: rights[rng.IntN(len(rights))], IOVA: uint64(rng.IntN(2)) << 40, HasIOVA: rng.IntN(2) == 0}
		before := mr.LKey()
		err := mr.Rereg(what, &now, to)
		legal := what != 0 && what < 8
		if what&ReregPD != 0 {
			legal = legal && (to == a.pd || to == other)
		}
		if what&ReregAccess != 0 {
			legal = legal && now.Access != ib.AccessRemoteWrite
		}
		if (err == nil) != legal {
			t.Fatalf("seed %d, step %d: change %d to %+v in %p: %v", seed, step, what, now, to, err)
		}
		if legal && what&ReregTranslation != 0 {
			is.Buf, addr = now.Buf, uint64(address(now.Buf))
			if now.HasIOVA || now.IOVA != 0 {
				addr = now.IOVA
			}
		}
		if legal && what&ReregAccess != 0 {
			is.Access = now.Access
		}
		if legal && what&ReregPD != 0 {
			in = to
		}
		if moved := mr.LKey() != before; moved != (legal && what&ReregTranslation != 0) {
			t.Fatalf("seed %d, step %d: change %d, new keys: %v", seed, step, what, moved)
		}
		if &mr.Bytes()[0] != &is.Buf[0] || mr.Len() != uint64(len(is.Buf)) || mr.Addr() != addr || (mr.RKey() != 0) != (is.Access&ib.AccessRemote != 0) {
			t.Fatalf("seed %d, step %d: the region has %d bytes at %#x, rkey %#x", seed, step, mr.Len(), mr.Addr(), mr.RKey())
		}
		for _, pd := range pds {
			if err := pd.AdviseMR(AdvicePrefetch, true, []SGE{mr.SGE(0, 1)}); (err == nil) != (pd == in) {
				t.Fatalf("seed %d, step %d: use in a domain: %v, want it in %p only, not %p", seed, step, err, in, pd)
			}
		}
	}
	must.Fail(t, mr.Rereg(ReregAccess, nil, nil), ib.EINVAL, "new rights without attributes")
	must.Fail(t, mr.Rereg(ReregTranslation, &MRAttr{DM: new(DM)}, nil), ib.EINVAL, "into device memory")
	must.Fail(t, mr.Rereg(ReregTranslation, &MRAttr{Invalidatable: true, Buf: is.Buf}, nil), ib.EINVAL, "into an invalidatable region")
}

// TestM3_Advise shows that prefetching makes pages present before they are used, and each
// refusal.
func TestM3_Advise(t *testing.T) {
	a, b := newPair(t, ib.RC)
	pages, mr := mappedMR(t, a.pd)
	there := make([]byte, 2)
	resident := func() bool {
		_, _, code := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&pages[0])), uintptr(len(pages)), uintptr(unsafe.Pointer(&there[0])))
		return code == 0 && there[1] == 1
	}
	if resident() {
		t.Fatal("a page is present that was never used")
	}
	must.Do(t, a.pd.AdviseMR(AdvicePrefetchNoFault, true, []SGE{mr.SGE(0, 8192)}))
	if resident() {
		t.Error("PREFETCH_NO_FAULT added a page")
	}
	must.Do(t, a.pd.AdviseMR(AdvicePrefetchWrite, true, []SGE{mr.SGE(4096, 1)}))
	if !resident() {
		t.Error("PREFETCH_WRITE added no page")
	}
	readOnly, err := a.pd.RegMR(make([]byte, 8), 0)
	must.Do(t, err)
	for _, c := range []struct {
		what   string
		pd     *PD
		advice Advice
		sges   []SGE
		want   error
	}{
		{"no elements", a.pd, AdvicePrefetch, nil, ib.EINVAL},
		{"unknown advice", a.pd, 3, []SGE{mr.SGE(0, 1)}, ib.EOPNOTSUPP},
		{"unknown key", a.pd, AdvicePrefetch, []SGE{{Length: 1, LKey: mr.LKey() ^ 1}}, ib.ENOENT},
		{"a second element with an unknown key", a.pd, AdvicePrefetch, []SGE{mr.SGE(0, 1), {Length: 1, LKey: mr.LKey() ^ 1}}, ib.ENOENT},
		{"another domain", b.pd, AdvicePrefetch, []SGE{mr.SGE(0, 1)}, ib.ENOENT}, // the keys of two adapters differ
		{"read-only region", a.pd, AdvicePrefetchWrite, []SGE{readOnly.SGE(0, 8)}, ib.EPERM},
		{"outside of the region", a.pd, AdvicePrefetch, []SGE{mr.SGE(8191, 2)}, ib.EFAULT},
		{"no domain", nil, AdvicePrefetch, []SGE{mr.SGE(0, 1)}, ErrInvalidPD},
	} {
		must.Fail(t, c.pd.AdviseMR(c.advice, true, c.sges), c.want, c.what)
	}
	must.Do(t, unix.Mprotect(pages, syscall.PROT_NONE))
	must.Fail(t, a.pd.AdviseMR(AdvicePrefetch, true, []SGE{mr.SGE(0, 1)}), ib.EFAULT, "memory that is not accessible")
	must.Do(t, a.pd.AdviseMR(AdvicePrefetch, false, []SGE{mr.SGE(0, 1)}))
}
