package script

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/wording"
)

// args are the words of a command after its verb. The first error while they
// are read is kept, and done returns it; every later read gives zero.
type args struct {
	w     *world
	words []string          // those without "="
	vals  map[string]string // KEY=VALUE
	keys  []string          // asked for so far, for hints
	used  map[string]bool
	err   error
}

// splitWords cuts a line at blanks outside quotes.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	quoted := false
	for i := range len(line) {
		c := line[i]
		if c == '"' {
			quoted = !quoted
		}
		if c == ' ' && !quoted {
			if word.Len() > 0 {
				words = append(words, word.String())
				word.Reset()
			}
			continue
		}
		word.WriteByte(c)
	}
	if quoted {
		return nil, errors.New("a quote is not closed")
	}
	if word.Len() > 0 {
		words = append(words, word.String())
	}
	return words, nil
}

func newArgs(w *world, words []string) *args {
	a := &args{w: w, vals: map[string]string{}, used: map[string]bool{}}
	for _, s := range words {
		k, v, ok := strings.Cut(s, "=")
		switch {
		case !ok || strings.HasPrefix(s, `"`):
			a.words = append(a.words, s)
		case a.vals[k] != "":
			a.fail(fmt.Errorf("%s is given twice", k))
		default:
			a.vals[k] = v
		}
	}
	return a
}

func (a *args) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// word takes the next word without "=".
func (a *args) word(what string) string {
	if len(a.words) == 0 {
		a.fail(fmt.Errorf("want %s", what))
		return ""
	}
	s := a.words[0]
	a.words = a.words[1:]
	return s
}

// flag takes a word out, wherever it stands.
func (a *args) flag(name string) bool {
	a.keys = append(a.keys, name)
	i := slices.Index(a.words, name)
	if i < 0 {
		return false
	}
	a.words = slices.Delete(a.words, i, i+1)
	return true
}

// str takes the value of a key.
func (a *args) str(key, def string) string {
	a.keys = append(a.keys, key)
	v, ok := a.vals[key]
	a.used[key] = true
	if !ok {
		return def
	}
	return v
}

func (a *args) has(key string) bool {
	_, ok := a.vals[key]
	return ok
}

// num takes the value of a key as an expression; see eval.
func (a *args) num(key string, def uint64, in sense) uint64 {
	s := a.str(key, "")
	if s == "" {
		return def
	}
	v, err := a.w.eval(s, in)
	if err != nil {
		a.fail(fmt.Errorf("%s: %w", key, err))
	}
	return v
}

// small is num for a plain number of at most bits bits.
func (a *args) small(key string, def uint64, bits int) uint64 {
	v := a.num(key, def, plainNumber)
	if v>>bits != 0 {
		a.fail(fmt.Errorf("%s: %d is more than %d bits hold", key, v, bits))
	}
	return v
}

// boolean takes the value 0 or 1 of a key; the bare key is 1.
func (a *args) boolean(key string, def bool) bool {
	if a.flag(key) {
		return true
	}
	switch v := a.str(key, ""); v {
	case "":
		return def
	case "0":
		return false
	case "1":
		return true
	default:
		a.fail(fmt.Errorf("%s: want 0 or 1, not %s", key, v))
		return def
	}
}

// data takes the value of a key as bytes; see parseData.
func (a *args) data(key string) []byte {
	b, err := parseData(a.str(key, ""))
	if err != nil {
		a.fail(fmt.Errorf("%s: %w", key, err))
	}
	return b
}

// rate takes KEY=GB/S, the static rate of a path.
func (a *args) rate(key string) ib.Rate {
	s := a.str(key, ib.RateMax.String())
	r, err := ib.ParseRate(s)
	if err != nil {
		v, wrong := parseNumber(s)
		if wrong != nil || v > 255 {
			a.fail(err)
		}
		r = ib.Rate(v) // a code that does not exist
	}
	return r
}

// addr takes the value of a key as an IP address.
func (a *args) addr(key string, def netip.Addr) netip.Addr {
	s := a.str(key, "")
	if s == "" {
		return def
	}
	ip, err := netip.ParseAddr(s)
	if err != nil {
		a.fail(fmt.Errorf("%s: %w", key, err))
	}
	return ip
}

// done returns the first error, or an error for words that no call took.
func (a *args) done() error {
	if a.err != nil {
		return a.err
	}
	if len(a.words) > 0 {
		return fmt.Errorf("%q is not understood here%s", a.words[0], hint(a.words[0], a.keys))
	}
	for k := range a.vals {
		if !a.used[k] {
			return fmt.Errorf("there is no %s= here%s", k, hint(k, a.keys))
		}
	}
	return nil
}

// choose returns the value of a kind with a name.
func choose[T fmt.Stringer](kind, name string, all []T) (v T, err error) {
	var known []string
	for _, v := range all {
		if v.String() == name {
			return v, nil
		}
		known = append(known, v.String())
	}
	return v, fmt.Errorf("there is no %s %s%s", kind, name, hint(name, known))
}

// hint proposes the known word with the smallest edit distance, or lists them.
func hint(word string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	best, near := "", 3
	for _, k := range known {
		if d := wording.Distance(strings.ToLower(word), strings.ToLower(k)); d < near {
			best, near = k, d
		}
	}
	if best != "" {
		return "; did you mean " + best + "?"
	}
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	return "; there are " + strings.Join(known, ", ")
}

// sense says which number a name stands for in an expression.
type sense uint8

const (
	plainNumber sense = iota
	address           // of a region's first byte
	key               // of a region, or the present one of a memory window
	number            // of a queue pair, or of a shared receive queue of XRC
	ourID             // communication ID of the adapter's side of a connection
	peerID            // communication ID of the peer's side
)

// eval computes NUMBER or NAME, followed by any of +N, -N and ^N. Numbers are
// decimal or 0x, and may end in K or M.
func (r *registry) eval(s string, in sense) (uint64, error) {
	var v uint64
	op := byte('+')
	for rest := s; ; {
		end := strings.IndexAny(rest, "+-^")
		term := rest
		if end >= 0 {
			term = rest[:end]
		}
		n, err := r.term(term, in)
		if err != nil {
			return 0, err
		}
		switch op {
		case '+':
			v += n
		case '-':
			v -= n
		default:
			v ^= n
		}
		if end < 0 {
			return v, nil
		}
		op, rest = rest[end], rest[end+1:]
	}
}

func (r *registry) term(s string, in sense) (uint64, error) {
	if s != "" && s[0] >= '0' && s[0] <= '9' {
		return parseNumber(s)
	}
	switch in {
	case address, key:
		if o, ok := r.objects[s].(*window); ok && in == key {
			return uint64(o.mw.RKey()), nil
		}
		m, err := find[*region](r, s)
		if err != nil {
			return 0, err
		}
		if in == key {
			return uint64(m.mr.LKey()), nil
		}
		return m.mr.Addr(), nil
	case number:
		if k, ok := r.objects[s].(*sharedQueue); ok {
			return uint64(k.srq.Num()), nil
		}
		q, err := find[*pair](r, s)
		if err != nil {
			return 0, err
		}
		return uint64(q.num()), nil
	case ourID, peerID:
		c, err := find[*connection](r, s)
		if err != nil {
			return 0, err
		}
		if in == ourID {
			return uint64(c.id), nil
		}
		return uint64(c.peer.id), nil
	}
	return 0, fmt.Errorf("%q is no number", s)
}

func parseNumber(s string) (uint64, error) {
	if s == "" {
		return 0, fmt.Errorf("there is no number")
	}
	shift := 0
	switch s[len(s)-1] {
	case 'K':
		shift = 10
	case 'M':
		shift = 20
	}
	if shift > 0 {
		s = s[:len(s)-1]
	}
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", s)
	}
	return v << shift, nil
}
