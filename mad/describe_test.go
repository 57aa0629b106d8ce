package mad

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

var describedPath = Path{LocalGID: ib.GID{15: 1}, RemoteGID: ib.GID{15: 2}, LocalAckTimeout: 19}

// described is what the captures do not hold.
var described = []struct {
	header Header
	data   message
	want   string
}{
	{
		Header{}, &RTU{},
		"MAD class Class(0x0) version 0.0 method Method(0x0) attribute 0x0000 modifier 0x00000000 status ok tid 0x0000000000000000",
	},
	{
		Header{BaseVersion: 1, Class: ClassCM, ClassVersion: 2, Method: MethodGet, AttrID: AttrClassPortInfo, TID: 7},
		&ClassPortInfo{},
		"MAD class CM version 1.2 method Get attribute ClassPortInfo modifier 0x00000000 status ok tid 0x0000000000000007",
	},
	{
		Header{BaseVersion: 1, Class: ClassCM, ClassVersion: 3, Method: MethodSend, AttrID: AttrREQ}, &REQ{},
		"MAD class CM version 1.3 method Send attribute REQ modifier 0x00000000 status ok tid 0x0000000000000000",
	},
	{
		Header{BaseVersion: 1, Class: ClassSM, ClassVersion: 1, Method: MethodGetResp, AttrID: 0x11, Status: StatusBusy},
		&RTU{},
		"MAD class SM version 1.1 method GetResp attribute 0x0011 modifier 0x00000000 status busy tid 0x0000000000000000",
	},
	{
		Header{BaseVersion: 1, Class: ClassCM, ClassVersion: 2, Method: MethodSend, AttrID: AttrRTU, Status: 4, AttrMod: 9},
		&RTU{LocalCommID: 1, RemoteCommID: 2, PrivateData: [RTUPrivateData]byte{9: 1}},
		"RTU comm 0x00000001 remote 0x00000002 private 10 bytes status bad version modifier 0x00000009",
	},
	{
		CMHeader(AttrREQ, 0),
		&REQ{LocalCommID: 1, ServiceID: 5, Transport: TransportExtended, ExtendedTransport: 1, Primary: describedPath, VendorID: 2},
		"REQ comm 0x00000001 service 0x0000000000000005 qp 0x000000 psn 0x000000 XRC pkey 0x0000 mtu code 0 " +
			"resources 0 depth 0 retry 0 rnr 0 ack timeout 19 path ::1 > ::2 vendor 0x000002",
	},
	{
		CMHeader(AttrREQ, 0),
		&REQ{
			ServiceID: IPServiceID(PSIB, 5), Transport: TransportExtended, ExtendedTransport: 3,
			PathMTU: ib.MTU4096, Primary: describedPath, Alternate: Path{LocalGID: ib.GID{15: 3}},
			PrivateData: [REQPrivateData]byte{1: 0x40},
		},
		"REQ comm 0x00000000 service ib:5 qp 0x000000 psn 0x000000 extended 3 pkey 0x0000 mtu 4096 " +
			"resources 0 depth 0 retry 0 rnr 0 ack timeout 19 path ::1 > ::2 alternate ::3 > :: private 2 bytes",
	},
	{
		CMHeader(AttrREQ, 0),
		&REQ{ServiceID: 5, Transport: TransportRD, LocalEECN: 0x11, LocalQKey: 0x22, Primary: describedPath},
		"REQ comm 0x00000000 service 0x0000000000000005 qp 0x000000 psn 0x000000 RD eecn 0x000011 qkey 0x00000022 pkey 0x0000 mtu code 0 " +
			"resources 0 depth 0 retry 0 rnr 0 ack timeout 19 path ::1 > ::2",
	},
	{
		CMHeader(AttrREQ, 0),
		&REQ{ServiceID: 5, Transport: TransportRD, LocalEECN: 0x11, RemoteEECN: 0x33, RDCExists: true, Primary: describedPath},
		"REQ comm 0x00000000 service 0x0000000000000005 qp 0x000000 psn 0x000000 RD eecn 0x000011 of a channel to eecn 0x000033 qkey 0x00000000 " +
			"pkey 0x0000 mtu code 0 resources 0 depth 0 retry 0 rnr 0 ack timeout 19 path ::1 > ::2",
	},
	{
		CMHeader(AttrREP, 0), &REP{LocalEECN: 0x11, FailoverAccepted: FailoverRejected, SRQ: true, VendorID: 0x010203},
		"REP comm 0x00000000 remote 0x00000000 qp 0x000000 psn 0x000000 eecn 0x000011 " +
			"resources 0 depth 0 rnr 0 ack delay 0 failover rejected vendor 0x010203",
	},
	{
		CMHeader(AttrMRA, 0), &MRA{Message: 3, ServiceTimeout: 24},
		"MRA comm 0x00000000 remote 0x00000000 message Which(3) service timeout 24",
	},
	{
		CMHeader(AttrREJ, 0), &REJ{Message: WhichREP, Reason: 34, InfoLength: 127},
		"REJ comm 0x00000000 remote 0x00000000 message REP reason 34 (RejReason(34)) info 127 bytes",
	},
	{
		CMHeader(AttrSIDRREP, 0), &SIDRREP{Status: SIDRRedirect, InfoLength: 255, VendorID: 1},
		"SIDR_REP request 0x00000000 service 0x0000000000000000 status 4 (redirect) qp 0x000000 qkey 0x00000000 " +
			"info 255 bytes vendor 0x000001",
	},
	{
		CMHeader(AttrLAP, 0), &LAP{RemoteQPN: 0x12, Alternate: describedPath},
		"LAP comm 0x00000000 remote 0x00000000 remote qp 0x000012 ack timeout 19 alternate ::1 > ::2",
	},
	{
		CMHeader(AttrAPR, 0), &APR{Status: APRInvalidGID, InfoLength: 2, Info: [InfoSize]byte{0xab, 0xcd}},
		"APR comm 0x00000000 remote 0x00000000 status 8 (invalid GID) info abcd",
	},
}

func TestDescribe(t *testing.T) {
	for _, c := range described {
		var m MAD
		m.PutHeader(c.header)
		c.data.Put(&m)
		if got := Describe(&m); got != c.want {
			t.Errorf("described as\n%s, want\n%s", got, c.want)
		}
	}
}
