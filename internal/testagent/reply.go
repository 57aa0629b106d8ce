package testagent

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

// Error is the program's reply when it refuses a request or a verb fails. It
// unwraps to the errno.
type Error struct {
	Command string        // the first word of the request
	Errno   syscall.Errno // of Linux
	Text    string        // what failed
	Bad     int           // posting a list: the index of the first that was refused; else -1
}

// Error says what failed, and why.
func (e *Error) Error() string {
	return fmt.Sprintf("test agent: %s: %s: %s", e.Command, e.Text, e.Errno)
}

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// Reply is a reply: values by key; a key may occur several times.
type Reply struct {
	command string
	pairs   [][2]string
}

func command(request string) string {
	first, _, _ := strings.Cut(request, " ")
	return first
}

// parseReply parses a reply; "err …" becomes an *Error.
func parseReply(request, line string) (Reply, error) {
	r := Reply{command: command(request)}
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "ok":
	case "err":
		return r, parseError(r.command, rest)
	default:
		return r, fmt.Errorf("test agent: %s: the reply %.60q is none: is this the test agent?", r.command, line)
	}
	for _, w := range strings.Fields(rest) {
		k, v, _ := strings.Cut(w, "=")
		r.pairs = append(r.pairs, [2]string{k, v})
	}
	return r, nil
}

func parseError(command, rest string) error {
	number, text, _ := strings.Cut(rest, " ")
	errno, err := strconv.ParseUint(number, 10, 12)
	if err != nil || errno == 0 {
		return fmt.Errorf("test agent: %s: the error %.60q has no errno: is this the test agent?", command, rest)
	}
	e := &Error{Command: command, Errno: syscall.Errno(errno), Text: text, Bad: -1}
	if before, bad, ok := strings.Cut(text, " bad="); ok {
		if n, err := strconv.ParseUint(bad, 10, 31); err == nil {
			e.Text, e.Bad = before, int(n)
		}
	}
	return e
}

// Get returns the first value of a key, and whether there is one.
func (r Reply) Get(key string) (string, bool) {
	for _, p := range r.pairs {
		if p[0] == key {
			return p[1], true
		}
	}
	return "", false
}

// All returns every value of a key, in order.
func (r Reply) All(key string) []string {
	var all []string
	for _, p := range r.pairs {
		if p[0] == key {
			all = append(all, p[1])
		}
	}
	return all
}

// Uint returns a number of at most bits bits.
func (r Reply) Uint(key string, bits int) (uint64, error) {
	s, ok := r.Get(key)
	if !ok {
		return 0, fmt.Errorf("test agent: %s: the reply has no %s=", r.command, key)
	}
	v, err := strconv.ParseUint(s, 0, bits)
	if err != nil {
		return 0, fmt.Errorf("test agent: %s: %s=%.40q: %w", r.command, key, s, err)
	}
	return v, nil
}

// Numbers returns every value that is a number, by key.
func (r Reply) Numbers() map[string]uint64 {
	all := make(map[string]uint64)
	for _, p := range r.pairs {
		if v, err := strconv.ParseUint(p[1], 0, 64); err == nil {
			all[p[0]] = v
		}
	}
	return all
}

// fields reads numbers of a reply; its error is that of the first wrong one.
type fields struct {
	r   Reply
	err error
}

func (f *fields) uint(key string, bits int) uint64 {
	if f.err != nil {
		return 0
	}
	v, err := f.r.Uint(key, bits)
	f.err = err
	return v
}

// record reads numbers of a value with commas; its error is that of the first
// wrong or missing one.
type record struct {
	words []string
	err   error
}

func (rc *record) uint(base, bits int) uint64 {
	if rc.err != nil {
		return 0
	}
	if len(rc.words) == 0 {
		rc.err = fmt.Errorf("test agent: a record of the reply is too short")
		return 0
	}
	v, err := strconv.ParseUint(rc.words[0], base, bits)
	rc.words, rc.err = rc.words[1:], err
	return v
}
