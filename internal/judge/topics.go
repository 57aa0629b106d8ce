package judge

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Topic is a hand-written text about differences: the rule, the scripts that
// show it, and a capture that shows it between two other peers.
type Topic struct {
	Title   string
	Shown   []Shown
	Capture string // the capture of two other peers that shows it; empty for none
	Text    string
}

// Shown is a script that shows a topic, or one queue pair of it.
type Shown struct{ Script, QP string }

// covers reports whether it names a difference of a script.
func (s Shown) covers(script string, d *Difference) bool {
	return s.Script == script && (s.QP == "" || s.QP == d.QP)
}

// maxTopics bounds the bytes of a file of topics.
const maxTopics = 1 << 20

// ReadTopics reads topics: blocks with a blank line between them, each with
// lines that begin with topic:, shown: (SCRIPT[/QP], with commas), capture: and
// text:, which may go on in the next lines.
func ReadTopics(in io.Reader) ([]Topic, error) {
	var all []Topic
	lines := bufio.NewScanner(io.LimitReader(in, maxTopics))
	begun, last := false, (*string)(nil)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			begun, last = begun && line != "", nil
			continue
		}
		key, rest, _ := strings.Cut(line, ":")
		if rest = strings.TrimSpace(rest); key == "topic" {
			all, begun = append(all, Topic{Title: rest}), true
			continue
		}
		if !begun {
			return nil, fmt.Errorf("topics, line %d: want topic: first, after a blank line", n)
		}
		t := &all[len(all)-1]
		switch {
		case key == "shown":
			for _, s := range strings.Split(rest, ",") {
				script, qp, _ := strings.Cut(strings.TrimSpace(s), "/")
				t.Shown = append(t.Shown, Shown{script, qp})
			}
		case key == "capture":
			t.Capture, last = rest, &t.Capture
		case key == "text":
			t.Text, last = rest, &t.Text
		case last != nil:
			*last += " " + line
		default:
			return nil, fmt.Errorf("topics, line %d: %q is no key: want topic, shown, capture or text", n, key)
		}
	}
	return all, lines.Err()
}
