package pingpong

import (
	"fmt"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
)

// Kind is the kind of program to run.
type Kind uint8

// The kinds.
const (
	RC Kind = iota
	UC
	UD
	SRQ // RC queue pairs that share a receive queue
	RD  // without a Linux program
)

var kindNames = [...]string{"rc", "uc", "ud", "srq", "rd"}

// KindNames returns the names that ParseKind accepts; the first is the default.
func KindNames() []string { return kindNames[:] }

// ParseKind returns the kind with a name.
func ParseKind(name string) (Kind, error) {
	for i, n := range kindNames {
		if strings.EqualFold(name, n) {
			return Kind(i), nil
		}
	}
	return 0, fmt.Errorf("type %q: want one of %s", name, strings.Join(kindNames[:], ", "))
}

func (k Kind) service() ib.QPType {
	switch k {
	case UC:
		return ib.UC
	case UD:
		return ib.UD
	case RD:
		return ib.RD
	default:
		return ib.RC
	}
}

// Options are the options of a side. Kind, Size, Iters and QPs must be the same on both
// sides.
type Options struct {
	Kind     Kind
	GIDIndex int           // entry of the GID table; negative: the entry of the TCP connection's address, or the first of its family
	Size     int           // bytes of a message; 0: 4096, UD 2048
	Iters    int           // messages each way, over all QPs
	MTU      int           // path MTU in bytes
	RxDepth  int           // posted receives
	QPs      int           // queue pairs; only SRQ has more than one
	Events   bool          // sleep until there are completions instead of polling
	Idle     time.Duration // give up after this time without a completion; 0: never
}

// Limits of the options, so that their memory is bounded.
const (
	maxSize    = 1 << 30
	maxIters   = 1 << 31
	maxRxDepth = 1 << 15
	maxQPs     = srqDests
)

// grhBytes is the size of the GRH before the payload of a UD message in the receive buffer.
const grhBytes = 40

// Check fills in defaults that depend on the kind. Its errors name the wrong option as on the
// command line.
func (o *Options) Check() error {
	if o.Size == 0 {
		o.Size = 4096
		if o.Kind == UD {
			o.Size = 2048
		}
	}
	if o.Kind != SRQ {
		o.QPs = 1
	}
	for _, c := range [...]struct {
		name     string
		value    int
		min, max int
	}{
		{"size", o.Size, 1, maxSize}, {"iters", o.Iters, 1, maxIters},
		{"qps", o.QPs, 1, maxQPs}, {"rx-depth", o.RxDepth, o.QPs + 1, maxRxDepth},
	} {
		if c.value < c.min || c.value > c.max {
			return fmt.Errorf("--%s %d: want %d to %d", c.name, c.value, c.min, c.max)
		}
	}
	if m, ok := ib.MTUFor(o.MTU); !ok || m.Bytes() != o.MTU {
		return fmt.Errorf("--mtu %d: want 256, 512, 1024, 2048 or 4096", o.MTU)
	}
	return nil
}

// slotBytes is the size of a receive buffer.
func (o *Options) slotBytes() int { return o.Size + o.offset() }

// offset is the offset of the payload in a receive buffer.
func (o *Options) offset() int {
	if o.Kind == UD {
		return grhBytes
	}
	return 0
}
