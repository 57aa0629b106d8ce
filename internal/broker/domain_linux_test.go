//go:build !portable

package broker

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// file names the XRC domain of the tests.
const file = "801/2f"

// TestM4_DomainOfOneProcess shows that at most one process on an address has the domain of a file,
// whether it was alone when it claimed the domain, joined later, or outlives the host. The domain is
// free as soon as its process has released it as often as it claimed it, or has ended.
func TestM4_DomainOfOneProcess(t *testing.T) {
	a := freeAddress(t)
	x := enter(t, a)
	for range 2 { // two openings
		must.Do(t, x.ClaimDomain(file))
	}
	y := enter(t, a)
	must.Fail(t, y.ClaimDomain(file), unix.EADDRINUSE, "another process's domain")
	must.Do(t, y.ClaimDomain(file+"0"))
	must.Fail(t, x.ClaimDomain(file+"0"), unix.EADDRINUSE, "another process's domain, for the host")
	x.ReleaseDomain(file)
	must.Fail(t, y.ClaimDomain(file), unix.EADDRINUSE, "a domain that was released once of twice")
	x.ReleaseDomain(file)
	must.Do(t, y.ClaimDomain(file))
	z := enter(t, a)
	x.die()
	must.Fail(t, z.ClaimDomain(file), unix.EADDRINUSE, "a member's domain, after the end of the host")
	y.die()
	must.Do(t, z.ClaimDomain(file))
	other := enter(t, a.Next())
	must.Do(t, other.ClaimDomain(file)) // the adapters of two addresses share nothing
}

// TestM4_DomainIsNoService shows that the claim of a domain is not a service: connection requests
// for its ID are refused like those for an unknown service, and it is not counted as a service.
func TestM4_DomainIsNoService(t *testing.T) {
	a := freeAddress(t)
	p, x, y := peerOf(t, a), enter(t, a), enter(t, a)
	must.Do(t, x.ClaimDomain(file))
	must.Do(t, y.ClaimDomain(file+"0"))
	must.Do(t, y.Claim(service))
	for i, m := range []string{file, file + "0"} {
		q := reqFor(domainID(m), uint32(10+i))
		q.Primary.LocalGID = ib.GIDFromAddr(p.port.Caps().Addrs[0])
		p.send(mad.AttrREQ, q)
		r := expect(t, p.port, mad.AttrREJ, &mad.REJ{})
		if r.RemoteCommID != uint32(10+i) || r.Reason != mad.RejInvalidServiceID {
			t.Errorf("the domain of slot %d: %+v", i, r)
		}
		p.send(mad.AttrSIDRREQ, &mad.SIDRREQ{RequestID: uint32(20 + i), ServiceID: domainID(m)})
		if r := expect(t, p.port, mad.AttrSIDRREP, &mad.SIDRREP{}); r.RequestID != uint32(20+i) || r.Status != mad.SIDRUnsupportedService {
			t.Errorf("the domain of slot %d: %+v", i, r)
		}
	}
	_, _, who, err := Who(a, rigSecret)
	if err != nil || len(who) != 2 || who[0].PID != os.Getpid() || who[0].Services != 0 || who[1].Services != 1 {
		t.Errorf("the services of members with a domain: %+v, %v", who, err)
	}
}

// TestM4_AllDomainsOfAHost has a process that is alone on an address claim as many services as its
// connection manager listens to, and as many domains as its adapter has. Another process gets
// none of them when it joins.
func TestM4_AllDomainsOfAHost(t *testing.T) {
	a := freeAddress(t)
	x := enter(t, a)
	limits := hca.DefaultLimits()
	for i := range cm.DefaultLimits().MaxListeners {
		must.Do(t, x.Claim(service+mad.ServiceID(i)))
	}
	for i := range limits.MaxXRCD {
		must.Do(t, x.ClaimDomain(fmt.Sprint(i)))
	}
	y := enter(t, a)
	for i := range limits.MaxXRCD {
		must.Fail(t, y.ClaimDomain(fmt.Sprint(i)), unix.EADDRINUSE, "a domain of the host")
	}
	must.Do(t, y.ClaimDomain(file))
}

// TestDomainIDs compares the IDs of files: each file has its own, and no port has one of them.
func TestDomainIDs(t *testing.T) {
	seen := make(map[mad.ServiceID]string)
	for _, f := range []string{"", "0/0", "1/11", "11/1", file, file + "0"} {
		id := domainID(f)
		if other, twice := seen[id]; twice || !isDomain(id) {
			t.Errorf("%q has the ID %v of %q", f, id, other)
		}
		seen[id] = f
	}
	for _, ps := range []mad.PortSpace{mad.PSTCP, mad.PSUDP, mad.PSIB, mad.PSRD, mad.PSIPoIB, ^mad.PortSpace(0)} {
		if id := mad.IPServiceID(ps, 65535); isDomain(id) {
			t.Errorf("%v is the ID of a domain", id)
		}
	}
}
