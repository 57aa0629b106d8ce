package verbs

import (
	"bytes"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// TestM3_DeviceMemory shows that a peer reads, writes and adds to device memory, by addresses
// that count from the start of the region, and that the program sees it by copies.
func TestM3_DeviceMemory(t *testing.T) {
	a, b := newPair(t, ib.RC)
	connect(t, a, b, nil)
	dm, err := b.ctx.AllocDM(256, 6)
	must.Do(t, err)
	must.Do(t, dm.CopyTo(64, []byte("0123456789abcdef")))
	mr, err := b.pd.RegMREx(&MRAttr{DM: dm, Addr: 64, Length: 128, Access: ib.AccessLocalWrite | ib.AccessRemote})
	must.Do(t, err)
	if mr.Addr() != 0 || mr.Len() != 128 || mr.RKey() == 0 {
		t.Errorf("the region has %d bytes at %#x, rkey %#x", mr.Len(), mr.Addr(), mr.RKey())
	}
	copy(a.mr.Bytes(), "into device memory")
	must.Do(t, a.qp.PostSend(SendWR{Opcode: ib.WRRDMAWrite, SGList: []SGE{a.mr.SGE(0, 20)}, RemoteAddr: 40, RKey: mr.RKey()}))
	must.Do(t, a.qp.PostSend(SendWR{Opcode: ib.WRRDMARead, SGList: []SGE{a.mr.SGE(100, 16)}, RemoteAddr: 0, RKey: mr.RKey()}))
	must.Do(t, a.qp.PostSend(SendWR{Opcode: ib.WRAtomicFetchAdd, SGList: []SGE{a.mr.SGE(200, 8)}, RemoteAddr: 120, RKey: mr.RKey(), CompareAdd: 5}))
	a.wait(t, 3)
	if got := a.mr.Bytes()[100:116]; string(got) != "0123456789abcdef" {
		t.Errorf("the READ of device memory returned %q", got)
	}
	got := make([]byte, 20)
	must.Do(t, dm.CopyFrom(got, 64+40))
	if !bytes.HasPrefix(got, []byte("into device memory")) {
		t.Errorf("after the WRITE device memory holds %q", got)
	}
	must.Do(t, dm.CopyFrom(got[:8], 64+120))
	if !bytes.Equal(got[:8], []byte{5, 0, 0, 0, 0, 0, 0, 0}) && !bytes.Equal(got[:8], []byte{0, 0, 0, 0, 0, 0, 0, 5}) {
		t.Errorf("after FETCH&ADD device memory holds %x, want 5", got[:8])
	}
	// The byte after the region is still device memory, but not the peer's.
	must.Do(t, a.qp.PostSend(SendWR{Opcode: ib.WRRDMAWrite, SGList: []SGE{a.mr.SGE(0, 1)}, RemoteAddr: 128, RKey: mr.RKey()}))
	if wc := a.take(t, 1)[0]; wc.Status != ib.WCRemAccessErr {
		t.Errorf("a WRITE after the region completes with %v, want %v", wc.Status, ib.WCRemAccessErr)
	}
}

// TestM3_DeviceMemoryRefused has each misuse of device memory refused with its error.
func TestM3_DeviceMemoryRefused(t *testing.T) {
	a, b := newPair(t, ib.RC)
	attr, err := a.ctx.QueryDevice()
	must.Do(t, err)
	_, err = a.ctx.AllocDM(0, 0)
	must.Fail(t, err, ib.EINVAL, "0 bytes")
	_, err = a.ctx.AllocDM(64, 13)
	must.Fail(t, err, ib.EINVAL, "an alignment of two pages")
	_, err = a.ctx.AllocDM(attr.MaxDMSize+1, 0)
	must.Fail(t, err, ib.EINVAL, "more than there is")
	all, err := a.ctx.AllocDM(attr.MaxDMSize, 12)
	must.Do(t, err)
	_, err = a.ctx.AllocDM(1, 0)
	must.Fail(t, err, ib.ENOMEM, "one byte more than there is")
	for _, c := range []struct {
		off  uint64
		n    int
		want error
	}{
		{1, 4, ib.EINVAL}, {4, 3, ib.EINVAL}, {attr.MaxDMSize, 4, ib.EFAULT}, {attr.MaxDMSize - 4, 8, ib.EFAULT}, {1 << 63, 4, ib.EFAULT}, {1<<64 - 4, 4, ib.EFAULT},
		{attr.MaxDMSize - 4, 4, nil},
	} {
		if c.want == nil {
			must.Do(t, all.CopyTo(c.off, make([]byte, c.n)))
			continue
		}
		must.Fail(t, all.CopyTo(c.off, make([]byte, c.n)), c.want, "copy to device memory")
		must.Fail(t, all.CopyFrom(make([]byte, c.n), c.off), c.want, "copy from device memory")
	}
	for what, m := range map[string]*MRAttr{
		"a region beyond the end":       {DM: all, Addr: uintptr(attr.MaxDMSize - 4), Length: 8},
		"a region after the end":        {DM: all, Addr: uintptr(attr.MaxDMSize + 1)},
		"on demand":                     {DM: all, Length: 8, Access: ib.AccessOnDemand},
		"with a buffer":                 {DM: all, Length: 8, Buf: make([]byte, 8)},
		"device memory without content": {DM: new(DM), Length: 8},
	} {
		_, err := a.pd.RegMREx(m)
		must.Fail(t, err, ib.EINVAL, what)
	}
	_, err = b.pd.RegMREx(&MRAttr{DM: all, Length: 8})
	must.Fail(t, err, ib.EINVAL, "device memory of another adapter")
	first, err := a.pd.RegMREx(&MRAttr{DM: all, Length: 8, IOVA: 1 << 20})
	must.Do(t, err)
	second, err := a.pd.RegMREx(&MRAttr{DM: all, Length: 8, Access: ib.AccessZeroBased})
	must.Do(t, err)
	must.Fail(t, all.Free(), ib.ErrBusy, "free with two regions")
	must.Do(t, first.Dereg())
	must.Do(t, second.ReregAccess(ib.AccessZeroBased|ib.AccessLocalWrite))
	must.Fail(t, all.Free(), ib.ErrBusy, "free with one region")
	must.Do(t, second.Rereg(ReregTranslation|ReregAccess, &MRAttr{Buf: make([]byte, 8)}, nil))
	must.Do(t, all.Free()) // the region is in other memory now
	must.Fail(t, all.Free(), ib.EINVAL, "second free")
	must.Fail(t, all.CopyTo(0, make([]byte, 4)), ib.EINVAL, "copy to freed memory")
	again, err := a.ctx.AllocDM(attr.MaxDMSize, 0)
	must.Do(t, err)
	must.Do(t, again.Free())
}

// TestM3_DeviceMemoryIsAligned allocates device memory with each alignment.
func TestM3_DeviceMemoryIsAligned(t *testing.T) {
	a, _ := newPair(t, ib.RC)
	for log := range uint32(13) {
		dm, err := a.ctx.AllocDM(4, log)
		must.Do(t, err)
		if at := address(dm.obj.Bytes()); at&(1<<log-1) != 0 {
			t.Errorf("device memory aligned to 2^%d is at %#x", log, at)
		}
	}
}
