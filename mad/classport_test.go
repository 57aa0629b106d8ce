package mad

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

func TestC12_ClassPortInfo(t *testing.T) {
	info := ClassPortInfo{
		BaseVersion: BaseVersion, ClassVersion: CMClassVersion, CapabilityMask: 0x0102,
		CapabilityMask2: 0x7ffffff, RespTimeValue: 18,
		Redirect: ClassPort{
			GID: ib.GID{15: 1}, TrafficClass: 0x20, SL: 3, FlowLabel: 0x12345, LID: 0x0607,
			PKey: ib.PKeyDefault, HopLimit: 64, QPN: ib.QPNGSI, QKey: ib.QKeyGSI,
		},
		Trap: ClassPort{GID: ib.GID{2}, HopLimit: 64, QPN: 0x0a0b0c, QKey: 0x0d0e0f10},
	}
	want := [DataSize]byte{
		0x01, 0x02, 0x01, 0x02, 0xff, 0xff, 0xff, 0xf2,
		23: 1, 24: 0x20, 0x31, 0x23, 0x45, 0x06, 0x07, 0xff, 0xff,
		32: 0, 0, 0, 1, 0x80, 0x01, 0, 0,
		40: 2, 64: 64, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10,
	}
	var m MAD
	info.Put(&m)
	if *m.Data() != want {
		t.Errorf("the attribute is written as\n% x, want\n% x", m.Data()[:72], want[:72])
	}
	var got ClassPortInfo
	got.Decode(&m)
	info.Redirect.HopLimit = 0 // reserved there
	if got != info {
		t.Errorf("the attribute is read as\n%+v, want\n%+v", got, info)
	}
}
