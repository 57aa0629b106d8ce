package script

import (
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// parseData reads bytes: terms with commas between them, each optionally
// repeated by *N. A term is a character, a quoted string or 0x with an even
// number of digits: a*256,"end",0x00ff*4.
func parseData(s string) ([]byte, error) {
	var out []byte
	for _, term := range splitTerms(s) {
		body, times := term, 1
		if i := strings.LastIndexByte(term, '*'); i > 0 && !strings.HasSuffix(term, `"`) {
			n, err := strconv.Atoi(term[i+1:])
			if err != nil || n < 0 || n > 1<<24 {
				return nil, fmt.Errorf("%q: want a count after *", term)
			}
			body, times = term[:i], n
		}
		b, err := parseTerm(body)
		if err != nil {
			return nil, err
		}
		for range times {
			out = append(out, b...)
		}
	}
	return out, nil
}

func parseTerm(s string) ([]byte, error) {
	switch {
	case strings.HasPrefix(s, "0x"):
		return hex.DecodeString(s[2:])
	case len(s) == 1:
		return []byte(s), nil
	case strings.HasPrefix(s, `"`):
		t, err := strconv.Unquote(s)
		return []byte(t), err
	}
	return nil, fmt.Errorf(`%q is no data: want terms such as a*256, "text" or 0x00ff*4, with commas between`, s)
}

// splitTerms cuts at commas outside quotes.
func splitTerms(s string) []string {
	if s == "" {
		return nil
	}
	var terms []string
	quoted, from := false, 0
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			terms = append(terms, s[from:i])
			from = i + 1
		}
	}
	return append(terms, s[from:])
}

// Bounds of a summary: more terms or literal bytes than these become a length
// and a checksum.
const (
	maxTerms   = 12
	maxLiteral = 32
	minRun     = 4
)

// ShowData writes bytes as parseData reads them, or as their number and their
// CRC-32 when that would be long.
func ShowData(b []byte) string {
	var terms []string
	var literal []byte
	flush := func() {
		if len(literal) > 0 {
			terms = append(terms, showLiteral(literal))
			literal = literal[:0]
		}
	}
	for i := 0; i < len(b); {
		n := 1
		for i+n < len(b) && b[i+n] == b[i] {
			n++
		}
		if n < minRun {
			literal = append(literal, b[i:i+n]...)
		} else {
			flush()
			terms = append(terms, showByte(b[i])+"*"+strconv.Itoa(n))
		}
		if len(literal) > maxLiteral || len(terms) > maxTerms {
			return fmt.Sprintf("%d_bytes(crc32=%08x)", len(b), crc32.ChecksumIEEE(b))
		}
		i += n
	}
	flush()
	return strings.Join(terms, ",")
}

func plain(c byte) bool { return c > ' ' && c < 0x7f && !strings.ContainsRune(`"\,*`, rune(c)) }

func showByte(c byte) string {
	if plain(c) {
		return string(rune(c))
	}
	return fmt.Sprintf("0x%02x", c)
}

func showLiteral(b []byte) string {
	for _, c := range b {
		if !plain(c) && c != ' ' {
			return fmt.Sprintf("0x%x", b)
		}
	}
	if len(b) == 1 && plain(b[0]) {
		return string(b)
	}
	return strconv.Quote(string(b))
}
