//go:build linux

package direct

import (
	"context"
	"net/netip"
	"time"

	"github.com/softhca/softhca/interop/conformance"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/netns"
	"github.com/softhca/softhca/interop/suite"
)

// The second addresses of our side, at the beginning of alternate paths.
var (
	second4 = netip.MustParseAddr("10.77.0.9")
	second6 = netip.MustParseAddr("fd00:77::9")
)

const cut = "path cut"

// migrationFamily has our queue pair migrate while the peer's cannot.
func migrationFamily(run runner) suite.Family {
	return suite.Family{
		Name: "migration", About: "an alternate path is loaded, which the peer's packets arm; after the migration it hears nothing more",
		Dims:  []matrix.Dim{{Name: "what", Values: []string{"software", cut}}, matrix.Direction(), matrix.IP()},
		Skip:  func(c matrix.Cell) bool { return c.Is("what", cut) && c.Is("dir", "server") }, // our side does not write
		Short: func(c matrix.Cell) bool { return first(c) && c.Is("what", cut) },
		Cost:  2 * time.Second, Loose: suite.Gone,
		Refusal: func(c matrix.Cell) string {
			if c.Is("dir", "server") {
				return "drop_address" // packets that arrive on the old path
			}
			return ""
		},
		Run: run(func(ctx context.Context, s *stage) ([]conformance.Result, error) {
			second, rules := second4, ""
			if s.cell.Is("ip", "ipv6") {
				second = second6
			}
			if err := netns.AddAddress(second); err != nil {
				return nil, err
			}
			if s.cell.Is("what", cut) {
				rules = conformance.Cut
			}
			p, err := s.openAt(ctx, s.lab.Own(s.cell).String()+","+second.String(), rules)
			if err != nil {
				return nil, err
			}
			return []conformance.Result{conformance.Migration(ctx, p, rules != "")}, p.Close()
		}),
	}
}
