package mad

import (
	"encoding/hex"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
)

// vector is a datagram of a connection between Linux peers, without the zeros
// at its end, and what it says.
type vector struct {
	hex  string
	attr AttrID
	want message
}

const (
	vectorTID        = 0x00000002ac008a19
	vectorClientComm = 0x198a00ac
	vectorServerComm = 0x38566c6b
)

var (
	vectorClient = netip.MustParseAddr("10.77.0.3")
	vectorServer = netip.MustParseAddr("10.77.0.2")
)

func vectors() []vector {
	req := &REQ{
		LocalCommID: vectorClientComm, ServiceID: IPServiceID(PSTCP, 7472), LocalCAGUID: 0x505400fffe770002,
		LocalQPN: 0xf7, ResponderResources: 128, InitiatorDepth: 128, RemoteResponseTimeout: 20,
		Transport: TransportRC, StartingPSN: ib.NewPSN(0x36e49f), LocalResponseTimeout: 20, RetryCount: 7,
		PKey: ib.PKeyDefault, PathMTU: ib.MTU1024, RNRRetryCount: 7, MaxCMRetries: 15,
		Primary: Path{
			LocalLID: 0xffff, RemoteLID: 0xffff,
			LocalGID: ib.GIDFromAddr(vectorClient), RemoteGID: ib.GIDFromAddr(vectorServer),
			FlowLabel: (60241*31 + 7472) & 0xfffff, HopLimit: 64, LocalAckTimeout: 19,
		},
	}
	IPHeader{SrcPort: 60241, SrcAddr: vectorClient, DstAddr: vectorServer}.Put((*[IPHeaderSize]byte)(req.PrivateData[:]))
	rep := &REP{
		LocalCommID: vectorServerComm, RemoteCommID: vectorClientComm, LocalQPN: 0xf0, StartingPSN: ib.NewPSN(0xe760d3),
		ResponderResources: 128, InitiatorDepth: 128, TargetAckDelay: 15, RNRRetryCount: 7, LocalCAGUID: 0x505400fffe770001,
	}
	return []vector{
		{`010702030000000000000002ac008a190010000000000000
		198a00ac 00000000 0000000001061d30 505400fffe770002 00000000 00000000 0000f780 00000080 000000a0 36e49fa7
		ffff37f0 ffffffff 00000000000000000000ffff0a4d0003 00000000000000000000ffff0a4d0002 c9bff000 00400098
		00000000000000000000000000000000000000000000 00000000000000000000000000000000000000000000
		0040eb51 0000000000000000000000000a4d0003 0000000000000000000000000a4d0002`, AttrREQ, req},
		{`010702030000000000000002ac008a190013000000000000
		38566c6b 198a00ac 00000000 0000f000 00000000 e760d300 808078e0 505400fffe770001`, AttrREP, rep},
		{`010702030000000000000002ac008a190014000000000000 198a00ac 38566c6b`, AttrRTU,
			&RTU{LocalCommID: vectorClientComm, RemoteCommID: vectorServerComm}},
		{`010702030000000000000002ac008a190015000000000000 198a00ac 38566c6b 0000f000`, AttrDREQ,
			&DREQ{LocalCommID: vectorClientComm, RemoteCommID: vectorServerComm, RemoteQPN: 0xf0}},
		{`010702030000000000000002ac008a190016000000000000 38566c6b 198a00ac`, AttrDREP,
			&DREP{LocalCommID: vectorServerComm, RemoteCommID: vectorClientComm}},
	}
}

// bytes returns the whole datagram.
func (v *vector) bytes(t testing.TB) MAD {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(v.hex), ""))
	if err != nil || len(b) > Size {
		t.Fatalf("%v: %d bytes, %v", v.attr, len(b), err)
	}
	var m MAD
	copy(m[:], b)
	return m
}

// TestC3_C5_LinuxConnection reads and writes the datagrams of a connection
// that Linux set up and tore down.
func TestC3_C5_LinuxConnection(t *testing.T) {
	for _, v := range vectors() {
		wire := v.bytes(t)
		if got, want := wire.Header(), CMHeader(v.attr, vectorTID); got != want {
			t.Errorf("%v: the header is %+v, want %+v", v.attr, got, want)
		}
		got := reflect.New(reflect.TypeOf(v.want).Elem()).Interface().(message)
		got.Decode(&wire)
		if !reflect.DeepEqual(got, v.want) {
			t.Errorf("%v is read as\n%+v, want\n%+v", v.attr, got, v.want)
		}
		var built MAD
		built.PutHeader(CMHeader(v.attr, vectorTID))
		v.want.Put(&built)
		if built != wire {
			t.Errorf("%v is written as\n% x, want\n% x", v.attr, built, wire)
		}
	}
}
