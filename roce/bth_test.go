package roce

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

func TestBTH(t *testing.T) {
	wire := [12]byte{0x04, 0xa3, 0x80, 0x01, 0x55, 0x12, 0x34, 0x56, 0xaa, 0xab, 0xcd, 0xef}
	want := BTH{
		Opcode: RCSendOnly, SE: true, PadCnt: 2, TVer: 3, PKey: 0x8001, BECN: true, Resv6: 0x15,
		DestQP: 0x123456, AckReq: true, Resv7: 0x2a, PSN: ib.NewPSN(0xabcdef),
	}
	exact(t, wire, want)
}

func TestBTHFieldsDoNotSpill(t *testing.T) {
	wide := BTH{PadCnt: 0xff, TVer: 0xff, Resv6: 0xff, Resv7: 0xff, DestQP: 0xffffffff}
	var b [BTHLen]byte
	wide.put(&b)
	var got BTH
	got.decode(&b)
	want := BTH{PadCnt: 3, TVer: 15, Resv6: 0x3f, Resv7: 0x7f, DestQP: 0xffffff}
	if got != want {
		t.Errorf("values wider than their fields come back as %+v, want %+v", got, want)
	}
}
