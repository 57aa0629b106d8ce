package conformance

import (
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/interop/ends"
	"github.com/softhca/softhca/verbs"
)

// TestV15_MigrationWithoutPeer plays the case between two of ours: one that sends
// MigReq as Linux does, which ends as with Linux, and one that does not, which
// never arms the other.
func TestV15_MigrationWithoutPeer(t *testing.T) {
	for _, c := range []struct {
		cut, reversed, clear bool
		want                 Verdict
		note                 string
	}{
		{clear: true, want: Expected, note: "RETRY_EXC_ERR in the time"},
		{clear: true, cut: true, want: Expected, note: "RETRY_EXC_ERR in the time"},
		{clear: true, reversed: true, want: Expected, note: "RETRY_EXC_ERR in the time"},
		{cut: true, want: Fail, note: "the queue pair is REARM"},
	} {
		rules := ""
		if c.cut {
			rules = Cut
		}
		n := verbs.NewNetwork()
		p := Pair{MTU: 3}
		open := func(cfg verbs.Config) ends.End {
			cfg.Network = n
			o, err := ends.OpenOurs(cfg)
			must.Do(t, err)
			return o
		}
		own := open(verbs.Config{Addr: "10.0.0.1,10.0.0.9", Faults: verbs.Faults{Rules: rules, Seed: 1}})
		peer := foreign{open(verbs.Config{Addr: "10.0.0.2", ClearMigReq: c.clear})}
		p.Requester, p.Responder = own, peer
		if c.reversed {
			p.Requester, p.Responder = peer, own
		}
		r := Migration(t.Context(), p, c.cut)
		if r.Verdict != c.want || !strings.Contains(r.Note, c.note) {
			t.Errorf("%+v: %v: %s\n%s", c, r.Verdict, r.Note, strings.Join(r.Details, "\n"))
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// foreign is an adapter of ours that counts as a peer's.
type foreign struct{ ends.End }
