package rdmacm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"sync"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/verbs"
)

// frame is a CM message on the wire.
type frame struct {
	mad.MAD
	src, dst netip.Addr
	tclass   uint8
}

// readFrames returns the CM messages of a capture with a type of service: the
// first of each kind, by attribute.
func readFrames(t testing.TB, file io.Reader, tos uint8) map[mad.AttrID]*frame {
	t.Helper()
	r, err := pcapfile.NewReader(file)
	must.Do(t, err)
	frames := map[mad.AttrID]*frame{}
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return frames
		}
		must.Do(t, err)
		const headers, icrc = 12 + 8, 4
		if len(p.Payload) != headers+mad.Size+icrc || binary.BigEndian.Uint32(p.Payload[4:])&0xffffff != uint32(ib.QPNGSI) {
			continue
		}
		f := &frame{MAD: mad.MAD(p.Payload[headers:]), src: p.Src, dst: p.Dst, tclass: p.IP[1]}
		if p.IP[0]>>4 == 6 {
			f.tclass = p.IP[0]<<4 | p.IP[1]>>4
		}
		if a := f.Header().AttrID; frames[a] == nil && f.tclass == tos {
			frames[a] = f
		}
	}
}

// linuxCase is a capture of programs on Linux, and the calls with which our programs do
// the same.
type linuxCase struct {
	file   string
	client *ConnParam // of Connect
	server *ConnParam // of Accept; the private data is that of the capture
	leaves string     // the side that disconnects; empty: none
	tos    uint8      // of the connection to compare
}

var linuxCases = []linuxCase{
	{file: "cm_rdma_client", leaves: "client"},
	{file: "cm_rping", client: &ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetryCount: 7}, leaves: "client"},
	{file: "cm_rping_v6", client: &ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetryCount: 7}, leaves: "client"},
	{file: "cm_ucmatose", client: &ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 5}, leaves: "server"},
	{file: "cm_ucmatose_v6", client: &ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 5}, leaves: "server"},
	{file: "cm_rping_noserver", client: &ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetryCount: 7}},
	{file: "cm_rping_noserver_v6", client: &ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetryCount: 7}},
	{file: "cm_udaddy"},
	{file: "cm_udaddy_v6"},
	{file: "cm_udaddy_noserver"},
	{file: "cm_tos", client: &ConnParam{RetryCount: 7, RNRRetryCount: 7}, leaves: "client", tos: 106},
}

// TestC11_LinuxMessages repeats the actions of programs on Linux in captures: the
// messages are the same, field by field, except for random values and those that
// depend on the adapter.
func TestC11_LinuxMessages(t *testing.T) {
	for _, tt := range linuxCases {
		t.Run(tt.file, func(t *testing.T) {
			file, err := os.Open("../internal/testdata/captures/" + tt.file + ".pcap")
			must.Do(t, err)
			defer func() { must.Do(t, file.Close()) }()
			linux := readFrames(t, file, tt.tos)
			ours := tt.replay(t, linux)
			for attr, l := range linux {
				o := ours[attr]
				if o == nil {
					t.Errorf("we have sent no %v", attr)
					continue
				}
				if l.src != o.src || l.dst != o.dst || l.tclass != o.tclass {
					t.Errorf("%v went from %v to %v with ToS %d, Linux's from %v to %v with %d", attr, o.src, o.dst, o.tclass, l.src, l.dst, l.tclass)
				}
				alike(&l.MAD, &o.MAD)
				if l.MAD != o.MAD {
					t.Errorf("%v:\nours  %s\nLinux %s\nours  %x\nLinux %x", attr, mad.Describe(&o.MAD), mad.Describe(&l.MAD), o.MAD, l.MAD)
				}
			}
			for attr := range ours {
				if linux[attr] == nil {
					t.Errorf("we have sent %v, Linux has not", attr)
				}
			}
		})
	}
}

// alike copies fields to our message that differ for a good reason: transaction IDs,
// communication IDs, the node's GUID, QPNs and PSNs, and the path MTU, which depends
// on the network.
func alike(linux, ours *mad.MAD) {
	h := ours.Header()
	h.TID = linux.Header().TID
	ours.PutHeader(h)
	spans := map[mad.AttrID][][2]int{
		mad.AttrREQ: {{0, 4}, {16, 24}, {32, 35}, {44, 47}}, mad.AttrREP: {{0, 8}, {12, 15}, {20, 23}, {28, 36}},
		mad.AttrRTU: {{0, 8}}, mad.AttrDREQ: {{0, 11}}, mad.AttrDREP: {{0, 8}}, mad.AttrREJ: {{0, 8}},
		mad.AttrSIDRREQ: {{0, 4}}, mad.AttrSIDRREP: {{0, 4}, {8, 11}},
	}
	for _, s := range spans[h.AttrID] {
		copy(ours.Data()[s[0]:s[1]], linux.Data()[s[0]:s[1]])
	}
	if h.AttrID == mad.AttrREQ {
		ours.Data()[50] = ours.Data()[50]&0xf | linux.Data()[50]&0xf0
	}
}

// replay runs a case between two of our adapters with the addresses and ports of the
// capture, and returns the messages that they sent.
func (tt *linuxCase) replay(t *testing.T, linux map[mad.AttrID]*frame) map[mad.AttrID]*frame {
	t.Helper()
	first, head, ps, to := opening(t, linux)
	n := verbs.NewNetwork()
	var wire lockedBuffer
	a := newHost(t, verbs.Config{Network: n, Addr: first.src.String(), Capture: &wire})
	b := newHost(t, verbs.Config{Network: n, Addr: first.dst.String()})
	client := a.id(ps)
	must.Do(t, client.BindAddr(netip.AddrPortFrom(first.src, head.SrcPort)))
	must.Do(t, client.SetTOS(tt.tos))
	withQP(t, a.resolve(client, netip.AddrPortFrom(first.dst, to)))
	answered := linux[mad.AttrREP] != nil || linux[mad.AttrSIDRREP] != nil && sidrStatus(linux) == mad.SIDRValid
	var l *ID
	if answered {
		l = b.id(ps)
		must.Do(t, l.BindAddr(netip.AddrPortFrom(first.dst, to)))
		must.Do(t, l.Listen(0))
	}
	must.Do(t, client.Connect(tt.client))
	switch {
	case !answered && ps == UDP:
		a.take(EventUnreachable)
	case !answered:
		a.take(EventRejected)
	default:
		server := withQP(t, b.take(EventConnectRequest).ID)
		must.Do(t, server.Accept(tt.server))
		a.take(EventEstablished)
		if ps != UDP {
			b.take(EventEstablished)
		}
		tt.leave(a, b, client, server)
		destroy(t, server, l)
	}
	destroy(t, client)
	must.Do(t, a.m.Close())
	return readFrames(t, bytes.NewReader(wire.bytes()), tt.tos)
}

// leave ends the connection of a case.
func (tt *linuxCase) leave(a, b *host, client, server *ID) {
	switch tt.leaves {
	case "client":
		must.Do(a.t, client.Disconnect())
		b.take(EventDisconnected)
		must.Do(a.t, server.Disconnect())
		a.take(EventDisconnected)
	case "server":
		must.Do(a.t, server.Disconnect())
		a.take(EventDisconnected)
		must.Do(a.t, client.Disconnect())
		b.take(EventDisconnected)
	}
}

// opening returns the first message of a capture and its parameters.
func opening(t testing.TB, linux map[mad.AttrID]*frame) (f *frame, h mad.IPHeader, ps PortSpace, port uint16) {
	t.Helper()
	var service mad.ServiceID
	var data []byte
	if f = linux[mad.AttrREQ]; f != nil {
		var q mad.REQ
		q.Decode(&f.MAD)
		service, data = q.ServiceID, q.PrivateData[:]
	} else {
		var q mad.SIDRREQ
		f = linux[mad.AttrSIDRREQ]
		q.Decode(&f.MAD)
		service, data = q.ServiceID, q.PrivateData[:]
	}
	h, err := mad.ParseIPHeader((*[mad.IPHeaderSize]byte)(data))
	must.Do(t, err)
	ps, port, _ = service.IP()
	return f, h, ps, port
}

// sidrStatus returns the status of a capture's SIDR_REP.
func sidrStatus(linux map[mad.AttrID]*frame) mad.SIDRStatus {
	var p mad.SIDRREP
	p.Decode(&linux[mad.AttrSIDRREP].MAD)
	return p.Status
}

// lockedBuffer is a buffer that an adapter writes while the test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends to the buffer.
func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.b.Bytes())
}
