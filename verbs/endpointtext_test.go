package verbs

import (
	"encoding/json"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// TestEndpointAsText writes endpoints as text and as JSON, and reads them again.
func TestEndpointAsText(t *testing.T) {
	for addr, want := range map[string]string{
		"10.0.0.1":    "qpn=0x00002a psn=0x5a3c01 gid=10.0.0.1",
		"2001:db8::7": "qpn=0x00002a psn=0x5a3c01 gid=2001:db8::7",
	} {
		e := Endpoint{QPN: 0x2a, PSN: ib.NewPSN(0x5a3c01), GID: ib.GIDFromAddr(netip.MustParseAddr(addr))}
		b, err := json.Marshal(map[string]Endpoint{"peer": e})
		must.Do(t, err)
		if got := string(b); got != `{"peer":"`+want+`"}` {
			t.Errorf("an endpoint is %s in JSON, want %s", got, want)
		}
		var read map[string]Endpoint
		must.Do(t, json.Unmarshal(b, &read))
		if read["peer"] != e {
			t.Errorf("%s is read as %v", b, read["peer"])
		}
	}
	var e Endpoint
	must.Do(t, e.UnmarshalText([]byte("  gid=::ffff:10.0.0.1\tpsn=7 qpn=42\n")))
	if got := e.String(); got != "qpn=0x00002a psn=0x000007 gid=10.0.0.1" {
		t.Errorf("numbers in another order are read as %q", got)
	}
}

// TestEndpointRefusesGarbage checks that an invalid text changes nothing, and that the
// error names the wrong part.
func TestEndpointRefusesGarbage(t *testing.T) {
	for text, says := range map[string]string{
		"":                                 "no qpn=",
		"qpn=1 psn=2":                      "no gid=",
		"qpn=1 psn=2 gid=10.0.0.1 qpn=1":   "qpn is given twice",
		"qpn=0x1000000 psn=2 gid=10.0.0.1": `qpn="0x1000000"`,
		"qpn=1 psn=-2 gid=10.0.0.1":        `psn="-2"`,
		"qpn=1 psn=2 gid=10.0.0":           `gid="10.0.0"`,
		"qpn=1 psn=2 gid=fe80::1%eth0":     "without a zone",
		"qpn=1 psn=2 gid=10.0.0.1 lid=0":   `"lid"`,
		strings.Repeat("x", 200):           "at most 128",
	} {
		e := Endpoint{QPN: 9}
		err := e.UnmarshalText([]byte(text))
		must.Fail(t, err, syscall.EINVAL, text)
		if err != nil && !strings.Contains(err.Error(), says) || e != (Endpoint{QPN: 9}) {
			t.Errorf("%q: error %v, want it to say %q; the endpoint is %v", text, err, says, e)
		}
	}
}

// TestEndpointsConnect connects two queue pairs by the texts that the sides exchange.
func TestEndpointsConnect(t *testing.T) {
	a, b := newPair(t, ib.RC)
	text := func(e *endpoint, psn uint32) (own Endpoint, said []byte) {
		own, err := e.qp.Endpoint(ib.NewPSN(psn), 0)
		must.Do(t, err)
		said, err = own.MarshalText()
		must.Do(t, err)
		return own, said
	}
	ofA, fromA := text(a, 0xfffffe)
	ofB, fromB := text(b, 77)
	attr := QPAttr{AccessFlags: ib.AccessRemote, PathMTU: ib.MTU1024, Timeout: 19, RetryCnt: 7, RNRRetry: 7}
	var peer Endpoint
	must.Do(t, peer.UnmarshalText(fromB))
	must.Do(t, a.qp.ModifyToRTS(ofA.Connected(peer, attr)))
	must.Do(t, peer.UnmarshalText(fromA))
	must.Do(t, b.qp.ModifyToRTS(ofB.Connected(peer, attr)))
	deliver(t, a, b, 0)
	deliver(t, b, a, 0)

	_, err := a.qp.Endpoint(ib.NewPSN(0), 99)
	must.Fail(t, err, syscall.EINVAL, "an entry of the GID table that is empty")
	must.Do(t, a.qp.Destroy())
	_, err = a.qp.Endpoint(ib.NewPSN(0), 0)
	must.Fail(t, err, syscall.EINVAL, "a queue pair that is destroyed")
}
