package fault

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
)

// value is the value of a parameter.
type value struct {
	text  string // canonical
	num   int64  // also of a duration or a word
	share float64
	addr  netip.Addr
	ops   OpSet
}

// Bounds of values.
const (
	maxDuration = 24 * time.Hour
	maxOffset   = 65535
	max24       = 1<<24 - 1
	maxQueue    = 4096 // packets in the queue of a rate rule, and held by a port
)

// bounds are those of the kinds that are numbers.
var bounds = [...]struct{ lo, hi int64 }{
	kindCount: {1, math.MaxInt64}, kindQueue: {1, maxQueue}, kindOffset: {-maxOffset, maxOffset}, kindBit: {0, 8 * maxOffset},
	kindMask: {1, 255}, kindNumber: {0, max24}, kindLength: {0, maxOffset},
}

// wordError is the error of a value that is not in a list of words.
type wordError struct {
	at    int // offset in the value
	word  string
	words []string
}

// Error names the word.
func (e *wordError) Error() string { return fmt.Sprintf("%q is not known", e.word) }

// parseValue reads the value of a parameter.
func parseValue(p Param, s string) (value, error) {
	switch k := params[p].kind; k {
	case kindCount, kindQueue, kindOffset, kindBit, kindMask, kindNumber, kindLength:
		return parseInt(s, bounds[k].lo, bounds[k].hi)
	case kindFlag:
		return value{text: s}, nil
	case kindShare:
		return parseShare(s)
	case kindDuration:
		return parseDuration(s)
	case kindSpeed:
		return parseSpeed(s)
	case kindOps:
		return parseOps(s)
	case kindRequest:
		return parseRequests(s)
	case kindAddr:
		return parseAddr(s)
	case kindName:
		return parseName(s)
	default:
		return parseWord(params[p].kind, s)
	}
}

// parseInt reads a number: decimal, also with zeros before it, or hexadecimal
// after 0x.
func parseInt(s string, lo, hi int64) (value, error) {
	base := 10
	if strings.HasPrefix(s, "0x") {
		base, s = 16, s[2:]
	}
	n, err := strconv.ParseInt(s, base, 64)
	if err != nil || n < lo || n > hi {
		return value{}, fmt.Errorf("want a number from %d to %d", lo, hi)
	}
	return value{num: n, text: strconv.FormatInt(n, 10)}, nil
}

func parseShare(s string) (value, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return value{}, errors.New("want a probability from 0 to 1, such as 0.01")
	}
	if f == 0 {
		f = 0 // replace -0 by 0
	}
	return value{share: f, text: strconv.FormatFloat(f, 'g', -1, 64)}, nil
}

func parseDuration(s string) (value, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 || d > maxDuration {
		return value{}, fmt.Errorf("want a time, such as 5ms or 1.5s, up to %v", maxDuration)
	}
	return value{num: int64(d), text: d.String()}, nil
}

// speedUnits are the units of rate, the largest first.
var speedUnits = [...]struct {
	name  string
	scale float64
}{{"Gbit/s", 1e9}, {"Mbit/s", 1e6}, {"kbit/s", 1e3}, {"packets/s", 1}, {"bit/s", 1}}

var errSpeed = errors.New("want a rate, such as 100Mbit/s, 1.5Gbit/s or 5000packets/s")

// parseSpeed returns the rate in bits or packets per second in share; num is 1
// for packets.
func parseSpeed(s string) (value, error) {
	for _, u := range speedUnits {
		number, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		f, err := strconv.ParseFloat(number, 64)
		if err != nil || !(f > 0 && f*u.scale >= 1 && f*u.scale <= 1e12) {
			return value{}, errSpeed
		}
		v := value{share: f * u.scale, text: strconv.FormatFloat(f, 'f', -1, 64) + u.name}
		if u.name == "packets/s" {
			v.num = 1
		}
		return v, nil
	}
	return value{}, errSpeed
}

// parseOps reads names of opcodes with commas between them.
func parseOps(s string) (value, error) {
	v := value{text: s}
	at := 0
	for name := range strings.SplitSeq(s, ",") {
		set, ok := opsNamed(name)
		if !ok {
			return v, &wordError{at, name, opWords()}
		}
		v.ops.join(set)
		at += len(name) + 1
	}
	return v, nil
}

// parseRequests reads names of work requests with commas between them, into a set of opcodes.
func parseRequests(s string) (value, error) {
	v := value{text: s}
	at := 0
	for name := range strings.SplitSeq(s, ",") {
		set := requestsNamed(name)
		if set == 0 {
			return v, &wordError{at, name, requestNames()}
		}
		v.num |= set
		at += len(name) + 1
	}
	return v, nil
}

func parseAddr(s string) (value, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return value{}, errors.New("want an IP address")
	}
	a = a.Unmap().WithZone("")
	return value{addr: a, text: a.String()}, nil
}

// maxName bounds the name of a process.
const maxName = 80

// parseName reads the name of a process: letters, digits, and some signs.
func parseName(s string) (value, error) {
	if !ValidName(s) {
		return value{}, fmt.Errorf("want the name of a process, such as client.2, of at most %d letters, digits, dots, hyphens and underscores", maxName)
	}
	return value{text: s}, nil
}

// ValidName reports whether a process may have a name.
func ValidName(s string) bool {
	return s != "" && len(s) <= maxName && strings.Trim(s, NameLetters) == ""
}

// NameLetters are the characters of the names of processes.
const NameLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

// parseWord reads a word of a table.
func parseWord(k kind, s string) (value, error) {
	var words []string
	for _, w := range wordsOf(k) {
		if w.name == s {
			return value{num: w.num, text: s}, nil
		}
		words = append(words, w.name)
	}
	return value{}, &wordError{0, s, words}
}

// word is a value that has a name, and its number.
type word struct {
	name string
	num  int64
}

// wordsOf returns the words of a kind.
func wordsOf(k kind) (ws []word) {
	switch k {
	case kindCall:
		for i, name := range Calls() {
			ws = append(ws, word{name, int64(i)})
		}
	case kindDir:
		return directions[:]
	case kindPath:
		return paths[:]
	case kindSyndrome:
		return syndromes[:]
	case kindStatus:
		return statuses[:]
	case kindReason:
		return reasons[:]
	case kindErrno:
		return errnos[:]
	case kindState:
		return states[:]
	case kindEvent:
		for e := ib.EventCQErr; e <= ib.EventWQFatal; e++ {
			ws = append(ws, word{e.String(), int64(e)})
		}
	default:
		panic("fault: no words for a kind that is not one of words")
	}
	return ws
}
