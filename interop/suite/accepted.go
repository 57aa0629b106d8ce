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

// Counters of refused packets: reasons that must not occur with packets of the
// peer, and reasons for packets to queue pairs that have just ended.
var (
	wrongly = []string{
		"drop_malformed", "drop_icrc_errors", "drop_service", "drop_pkey_violations", "drop_qkey_violations",
		"port_truncated", "port_overflows", "port_bad_checksums",
	}
	toEnded = []string{"drop_no_qp", "drop_state", "drop_address"}
)

// afterwards are reasons that may also apply to a packet already counted as
// accepted.
var afterwards = []string{"drop_state", "drop_icrc_errors"}

// acceptance is how our adapters counted the packets that came.
type acceptance struct {
	accepted int64 // without our own packets to multicast groups that we have joined
	refused  int64 // refused and not counted as accepted: a lower bound
	after    int64 // counted as accepted and then refused: an upper bound
	late     int64 // arrived when perhaps no adapter was open
	strays   int64 // our own multicast packets, refused for their address
}

func newAcceptance(t *lab.Traffic, fs []frames.Frame) acceptance {
	c := t.Own.Counters
	a := acceptance{late: int64(frames.Late(fs, t.Own.Lives))}
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

// check compares the peer's packets with our adapters' counters. Faults at our
// port and queue pairs that end early leave some packets uncounted, and a
// killed adapter reports nothing. The case expects the counter refusal to
// count.
func (a acceptance) check(t *lab.Traffic, loose Loose, refusal string) error {
	if t.Own.Silent > 0 || loose&(Hostile|Within) != 0 {
		return nil
	}
	var errs []error
	in, faulty := int64(t.In), t.Own.Faulty
	if got := a.accepted + a.refused; got+a.after < in-a.late-faulty || got > in+faulty {
		errs = append(errs, fmt.Errorf("our adapters counted %d packets, and up to %d more, of the %d that came, of which %d came late and %d may have met a fault",
			got, a.after, in, a.late, faulty))
	}
	if n, refused := a.refusals(t, wrongly, refusal); n > faulty {
		errs = append(errs, fmt.Errorf("our adapters refused packets of the peer: %s", refused))
	}
	// The answer to a packet that we retransmitted, because the peer was slow,
	// may find its queue pair ended.
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
