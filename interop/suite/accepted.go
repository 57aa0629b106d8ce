//go:build linux

package suite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/softhca/softhca/interop/frames"
	"github.com/softhca/softhca/interop/lab"
)

// Refused packets are counted by reason: those that no packet of the peer's may
// meet, and those of packets for queue pairs that have just ended.
var (
	wrongly = []string{
		"drop_malformed", "drop_icrc_errors", "drop_service", "drop_pkey_violations", "drop_qkey_violations",
		"port_truncated", "port_overflows", "port_bad_checksums",
	}
	toEnded = []string{"drop_no_qp", "drop_state", "drop_address"}
)

// afterwards are reasons that may also be found when a packet is already counted
// as accepted.
var afterwards = []string{"drop_state", "drop_icrc_errors"}

// acceptance is what our adapters did with the packets that came.
type acceptance struct {
	accepted int64 // without our own to groups that we are in
	refused  int64 // and not counted as accepted, by at least
	after    int64 // counted as accepted before they were refused, by at most
	nobody   int64 // came when there may have been no adapter
	strays   int64 // of our own to groups, and refused for their address
}

func newAcceptance(t *lab.Traffic, fs []frames.Frame) acceptance {
	c := t.Own.Counters
	a := acceptance{nobody: int64(frames.Late(fs, t.Own.Lives))}
	n := c["rcvd_pkts"]
	own := int64(frames.ToGroups(fs)) // the system copies them to our other adapters
	copies := max(0, min(n-int64(t.In), own))
	a.accepted, a.strays = n-copies, min(c["drop_address"], own-copies)
	for _, name := range slices.Concat(wrongly, toEnded) {
		if slices.Contains(afterwards, name) {
			a.after += c[name]
		} else {
			a.refused += c[name]
		}
	}
	a.strays = max(0, min(a.strays, a.accepted+a.refused-int64(t.In)))
	a.refused -= a.strays
	return a
}

// exact reports whether each packet that came must be accounted for.
func exact(t *lab.Traffic, loose Loose) bool {
	return loose == 0 && t.Own.Silent == 0 && t.Own.Faulty == 0
}

// check holds what the peer sent to what our adapters counted. Faults at our
// port and queue pairs that end early leave some packets uncounted, and an
// adapter that was killed tells nothing. refusal is a counter that the case is
// about.
func (a acceptance) check(t *lab.Traffic, loose Loose, refusal string) error {
	if t.Own.Silent > 0 || loose&(Hostile|Within) != 0 {
		return nil
	}
	var errs []error
	in, faulty := int64(t.In), t.Own.Faulty
	if got := a.accepted + a.refused; got+a.after < in-a.nobody-faulty || got > in+faulty {
		errs = append(errs, fmt.Errorf("our adapters counted %d packets, and up to %d more, of the %d that came, of which %d came late and %d may have met a fault",
			got, a.after, in, a.nobody, faulty))
	}
	if n, refused := a.refusals(t, wrongly, refusal); n > faulty {
		errs = append(errs, fmt.Errorf("our adapters refused packets of the peer: %s", refused))
	}
	// The answer to a packet that was sent twice, because the peer was slow, may
	// find a queue pair that has ended.
	slack := faulty + t.Own.Counters[sentTwice]
	if n, refused := a.refusals(t, toEnded, refusal); n > slack && loose&Gone == 0 {
		errs = append(errs, fmt.Errorf("our adapters refused packets of the peer: %s", refused))
	}
	return errors.Join(errs...)
}

// refusals sums counters up, and names those that are not zero.
func (a acceptance) refusals(t *lab.Traffic, names []string, refusal string) (n int64, text string) {
	var refused []string
	for _, name := range names {
		v := t.Own.Counters[name]
		if name == "drop_address" {
			v -= a.strays
		}
		if v > 0 && name != refusal {
			refused = append(refused, fmt.Sprintf("%s %d", name, v))
			n += v
		}
	}
	return n, strings.Join(refused, ", ")
}
