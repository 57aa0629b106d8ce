//go:build linux

package direct

import (
	"context"
	"time"

	"github.com/softhca/softhca/interop/conformance"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/suite"
)

// forgedFamily has our requester get NAKs that its peer did not send.
func forgedFamily(run runner) suite.Family {
	byName := map[string]conformance.Forgery{}
	var names []string
	for _, f := range conformance.Forgeries() {
		names, byName[f.Name] = append(names, f.Name), f
	}
	return suite.Family{
		Name: "forged", About: "an answer of the peer is turned into a NAK at our port; our queue pair asks the peer, which answers, and the request succeeds",
		Dims:  []matrix.Dim{{Name: "what", Values: names}, matrix.IP(), matrix.Transport()},
		Short: first, Always: true, Cost: time.Second, Faulty: true,
		Run: run(func(ctx context.Context, s *stage) ([]conformance.Result, error) {
			f := byName[s.cell.Get("what")]
			p, err := s.open(ctx, f.Rules)
			if err != nil {
				return nil, err
			}
			r := conformance.Forged(ctx, p, f)
			return []conformance.Result{r}, p.Close()
		}),
	}
}
