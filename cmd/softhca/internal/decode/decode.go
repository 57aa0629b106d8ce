package decode

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/internal/pcapfile/runs"
)

// Summary has the counts of a file. Every RoCE packet is counted in one of the last
// four.
type Summary struct {
	Packets   int // records of any kind
	RoCE      int // UDP datagrams to port 4791
	ICRCOK    int // well-formed, with the right ICRC
	ICRCBad   int // well-formed, with a wrong ICRC
	Malformed int // no RoCEv2 packet, or cut off by the capture
	LeftOut   int // RoCE packets that the filter did not select
}

// String returns the counts as "packets=9 roce=8 icrc_ok=7 icrc_bad=0 malformed=1",
// and " left_out=3" if a filter did not select some.
func (s Summary) String() string {
	text := fmt.Sprintf("packets=%d roce=%d icrc_ok=%d icrc_bad=%d malformed=%d",
		s.Packets, s.RoCE, s.ICRCOK, s.ICRCBad, s.Malformed)
	if s.LeftOut > 0 {
		text += fmt.Sprintf(" left_out=%d", s.LeftOut)
	}
	return text
}

// Bad returns the number of RoCE packets that a receiver does not accept.
func (s Summary) Bad() int { return s.ICRCBad + s.Malformed }

// Options are the options of the output.
type Options struct {
	Filter
	Payload bool // print the payload
	Colors  bool // color the text
}

// Text prints a line for each RoCE packet of the capture file r to w. It
// returns the counts so far with any error of reading or writing. It blocks
// as r and w do.
func Text(r io.Reader, w io.Writer, o Options) (Summary, error) {
	return walk(r, &o, func(p *Packet, sinceFirst time.Duration) error {
		_, err := fmt.Fprintln(w, p.line(sinceFirst, style(o.Colors)))
		if err == nil && o.Payload {
			_, err = io.WriteString(w, dump(p.payload))
		}
		return err
	})
}

// JSON is like Text, with a JSON object for each packet.
func JSON(r io.Reader, w io.Writer, o Options) (Summary, error) {
	enc := json.NewEncoder(w)
	return walk(r, &o, func(p *Packet, _ time.Duration) error {
		if o.Payload {
			p.Data = new(hex.EncodeToString(p.payload))
		}
		return enc.Encode(p)
	})
}

// walk calls emit with each RoCE packet that the filter selects and its time since the
// first one.
func walk(r io.Reader, o *Options, emit func(p *Packet, sinceFirst time.Duration) error) (s Summary, err error) {
	file, err := pcapfile.NewReader(r)
	if err != nil {
		return s, err
	}
	var first time.Time
	for {
		raw, err := file.Next()
		s.Packets = file.Records()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		if s.RoCE == 0 {
			first = raw.Time
		}
		one := func(raw *pcapfile.Packet) {
			s.RoCE++
			p, sinceFirst := newPacket(raw), raw.Time.Sub(first)
			if err != nil || !o.chooses(p, sinceFirst) {
				s.LeftOut++
				return
			}
			s.count(p)
			err = emit(p, sinceFirst)
		}
		if newPacket(raw).ICRCOK || !runs.Split(raw, one) {
			one(raw)
		}
		if err != nil {
			return s, fmt.Errorf("print packet %d: %w", raw.Record, err)
		}
	}
}

func (s *Summary) count(p *Packet) {
	switch {
	case p.Malformed != "":
		s.Malformed++
	case p.ICRCOK:
		s.ICRCOK++
	default:
		s.ICRCBad++
	}
}
