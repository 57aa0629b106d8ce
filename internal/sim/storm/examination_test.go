package storm

import (
	"testing"

	"github.com/softhca/softhca/internal/clock"
)

// TestOracleOfExaminations shows that the checks of examinations can fail.
func TestOracleOfExaminations(t *testing.T) {
	for _, c := range []spoiled{
		{"an examination ends a connection whose peer lives", "examination", upAtBothEnds, func(s *side) {
			s.exam = &examination{trusted: clock.Never}
			s.host.step.knowsNot = s
			_ = s.conn.SendDREQ(s.host.w.Now, nil)
			s.host.endExaminations()
		}},
		{"an examination ends a connection before its outcome", "examination", upAtBothEnds, func(s *side) {
			s.exam = &examination{trusted: clock.Never, asked: 1}
			_ = s.conn.SendDREQ(s.host.w.Now, nil)
			s.host.endExaminations()
		}},
		{"an examination that nothing calls for", "examination", upAtBothEnds, func(s *side) {
			k := s.host.HCA.CM().Counters()
			k.Examined--
			s.host.weighDoubts(&k, 0)
		}},
		{"a stale message that is dropped without an examination", "examination", upAtBothEnds, func(s *side) {
			k := s.host.HCA.CM().Counters()
			s.host.step.doubt.side = s
			s.host.weighDoubts(&k, 0)
		}},
		{"a peer that is trusted too early", "examination", upAtBothEnds, func(s *side) {
			s.exam = &examination{trusted: clock.Never, asked: 1}
			s.host.trust(0)
		}},
	} {
		c.notice(t)
	}
}
