//go:build !linux || portable

package udp_test

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
)

func TestThereAreNoGroups(t *testing.T) {
	p := open(t, udp.Config{})
	group := netip.MustParseAddr("239.1.2.3")
	if err := p.Join(group); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("join: %v, want EOPNOTSUPP", err)
	}
	if err := p.Leave(group); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("leave: %v, want EINVAL", err)
	}
	batch := fabric.NewBatch(1<<12, p.Caps())
	way := fabric.Path{Src: p.Caps().Addrs[0], Dst: group, HopLimit: 64}
	if seg, _ := batch.Append(&way, 64); seg == nil {
		t.Fatal("no room for a segment")
	}
	must.Do(t, p.Send(batch))
	if n := p.Stats().SendErrors; n != 1 {
		t.Errorf("%d packets counted as refused, not 1", n)
	}
}
