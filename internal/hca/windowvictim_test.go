package hca_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// boundBytes is the number of bytes to which the program binds windows: the first bytes of a region
// without remote rights. The rest of the region is a guard.
const boundBytes = 128

// windowed is the part of a victim that has memory windows, and write-backs for FLUSHes of its peer.
type windowed struct {
	region  *memory.Region
	buf     []byte
	windows [4]*memory.Window // of both types in turn
	dead    ib.RKey           // of a window that is gone
	jobs    []qp.WriteBack    // not ended
}

// open registers the region and allocates the windows.
func (w *windowed) open(v *victim) {
	w.buf = bytes.Repeat([]byte{fuzzCanary}, 2*boundBytes)
	clear(w.buf[:boundBytes])
	v.gaps = append(v.gaps, w.buf[boundBytes:])
	var err error
	w.region, err = v.PD.RegMR(memory.RegionConfig{
		Buf: w.buf, IOVA: (numRegions + 1) << 32, Access: ib.AccessLocalWrite | ib.AccessMWBind,
	})
	rig.Must(v.T, err)
	for i := range w.windows {
		w.windows[i], err = v.PD.AllocMW(ib.MWType(1 + i&1))
		rig.Must(v.T, err)
	}
}

// key returns the key of a window, live or deallocated, and an address: at the start of the region,
// within it, or 0, as for a zero-based window. The code has 4 bits.
func (w *windowed) key(code byte) (ib.RKey, uint64) {
	key := w.windows[code&3].RKey()
	switch code >> 2 {
	case 1:
		return key, w.region.Addr() + 8
	case 2:
		return key, 0
	case 3:
		key = w.dead
	}
	return key, w.region.Addr()
}

// local makes wr a bind or an invalidation, legal or not.
func (w *windowed) local(v *victim, wr *ib.SendWR, size, where, flags byte) {
	wr.SGList = nil
	m := w.windows[where&3]
	if wr.Opcode == ib.WRLocalInv {
		if wr.InvRKey = m.RKey(); where&4 != 0 {
			wr.InvRKey, _ = v.target(where >> 3)
		}
		return
	}
	key, off := m.RKey(), uint64(size>>4)*8
	b := &ib.MWBind{
		RKey: key, NewRKey: key.Tagged(ib.RKey(flags)), LKey: w.region.LKey(), Addr: w.region.Addr() + off,
		Length: min(uint64(size&15)*16, boundBytes-min(off, boundBytes)), Access: ib.Access(where>>2) & (ib.AccessRemote | ib.AccessZeroBased),
	}
	if where&0x80 != 0 {
		b.Access |= ib.AccessZeroBased
	}
	switch flags >> 5 {
	case 6: // beyond the region
		b.Length = 2*boundBytes + 1
	case 7: // to a region without the right
		b.LKey, b.Addr = v.regions[regionPrivate].LKey(), v.regions[regionPrivate].Addr()
	}
	wr.Bind = b
}

// replace frees a window and allocates another.
func (w *windowed) replace(v *victim, which byte) {
	m := &w.windows[which&3]
	w.dead = (*m).RKey()
	rig.Must(v.T, v.PD.DeallocMW(*m))
	var err error
	*m, err = v.PD.AllocMW(ib.MWType(1 + which>>2&1))
	rig.Must(v.T, err)
}

// written reports the end of a write-back, and may keep the job to report its end again.
func (w *windowed) written(v *victim, which byte) {
	if len(w.jobs) == 0 {
		return
	}
	i := int(which>>2) % len(w.jobs)
	v.HCA.WrittenBack(v.Now, w.jobs[i], which&1 == 0)
	if which&2 == 0 {
		w.jobs = append(w.jobs[:i], w.jobs[i+1:]...)
	}
}

// close ends the write-backs, and shows that nothing holds the windows or their region.
func (w *windowed) close(v *victim) {
	v.T.Helper()
	for len(w.jobs) > 0 {
		w.written(v, 0)
	}
	for _, m := range w.windows {
		rig.Must(v.T, v.PD.DeallocMW(m))
	}
	rig.Must(v.T, v.PD.DeregMR(w.region))
	if n := v.HCA.Resources().MWs; n != 0 {
		v.T.Fatalf("%d windows are left", n)
	}
}

// windowSeeds returns instructions that bind windows, access them, invalidate them from both sides
// and bind again, with FLUSHes and ATOMIC WRITEs that wait.
func windowSeeds() (seeds [][]byte) {
	const all = 0x38 // rights of a bind
	bind := func(window byte) []byte { return []byte{byte(stepSend), 10, 8, window | all, 2} }
	packet := func(op roce.Opcode, where, value byte) []byte {
		return []byte{byte(stepPacket), byte(op), 0, where, 4, 1, 0, value, 0}
	}
	local := func(window byte) []byte { return []byte{byte(stepSend), 11, 0, window, 2} }
	recv := []byte{byte(stepRecv), 0, byte(stepRecv), 1}
	replace := []byte{byte(stepWindow), 0, byte(stepWindow), 5}
	for _, service := range []roce.Opcode{roce.RCSendFirst, roce.UCSendFirst} {
		for window := range byte(2) {
			to := window<<4 | 7
			for _, op := range []roce.Opcode{
				roce.RCRDMAWriteOnly, roce.RCRDMAReadRequest, roce.RCFetchAdd, roce.RCSendOnlyWithInvalidate, roce.RCAtomicWrite, roce.RCFlush,
			} {
				access := packet(op|service, to, 1)
				seeds = append(seeds, slices.Concat(recv, bind(window), access, local(window), access))
				seeds = append(seeds, slices.Concat(recv, bind(window), access, bind(window), access, replace, access))
			}
			zero := []byte{byte(stepSend), 10, 8, window | all | 0x80, 2}
			seeds = append(seeds, slices.Concat(zero, packet(roce.RCRDMAWriteOnly|service, to|0x80, 0)))
		}
	}
	flush, write, read := packet(roce.RCFlush, 0x10, 2), packet(roce.RCAtomicWrite, 0x10, 0), packet(roce.RCRDMAReadRequest, 0x10, 0)
	for _, ended := range []byte{0, 1, 2} {
		seeds = append(seeds, slices.Concat(flush, write, read, []byte{byte(stepTimer), byte(stepWritten), ended}, flush, []byte{byte(stepRegion), byte(stepWritten), 0}))
	}
	for op := byte(8); op < 12; op++ { // of the victim's own, behind a READ
		seeds = append(seeds, []byte{
			byte(stepSend), 2, 5, 1, 2, byte(stepSend), op, 8, all, 3, byte(stepSend), 1, 5, 1, 2, byte(stepAnswer), 2, 0, 0, 1, byte(stepAnswer), 1, 0, 0, 2,
			byte(stepMove), byte(ib.ERR), 0, 0, 0, 0, 0,
		})
	}
	return seeds
}

// TestVictimsWindowsAreReached shows that the seeds have the intended effects: memory behind windows is
// written, FLUSHes write memory back, and dead windows refuse access.
func TestVictimsWindowsAreReached(t *testing.T) {
	var reached, jobs, refused int
	for _, seed := range windowSeeds() {
		v := newVictim(t, &program{b: []byte{0, 3, 0, 0}})
		(&program{b: seed}).run(v)
		if bytes.ContainsFunc(v.windowed.buf[:boundBytes], func(r rune) bool { return r != 0 }) {
			reached++
		}
		if jobs += len(v.windowed.jobs); v.told(ib.EventQPAccessErr) > 0 {
			refused++
		}
		v.finish()
	}
	if reached == 0 || jobs == 0 || refused == 0 {
		t.Errorf("%d seeds write to a window, %d FLUSHes wait, %d seeds are refused", reached, jobs, refused)
	}
	t.Logf("%d seeds write to a window, %d FLUSHes wait, %d seeds are refused", reached, jobs, refused)
}
