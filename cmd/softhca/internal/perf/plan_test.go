package perf

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

func TestPlanDefaults(t *testing.T) {
	for _, c := range []struct {
		why  string
		in   Plan
		want Plan
	}{
		{"bandwidth", Plan{Op: Write}, Plan{Op: Write, Size: DefaultSize, Depth: DefaultDepth, PostList: 1, QPs: 1}},
		{"latency", Plan{Op: Send, Latency: true}, Plan{Op: Send, Latency: true, Size: 8, Depth: 1, PostList: 1, QPs: 1}},
		{"atomics", Plan{Op: FetchAdd}, Plan{Op: FetchAdd, Size: 8, Depth: DefaultDepth, PostList: 32, QPs: 1}},
		{"what is set stays", Plan{Op: Read, Size: 3, Depth: 4, PostList: 3, QPs: 5}, Plan{Op: Read, Size: 3, Depth: 4, PostList: 3, QPs: 5}},
	} {
		got := c.in
		c.want.Timeout, c.want.Retry, c.want.Type = DefaultTimeout, DefaultRetry, ib.RC
		if err := got.Check(); err != nil || got != c.want {
			t.Errorf("%s: %+v becomes %+v (%v), want %+v", c.why, c.in, got, err, c.want)
		}
	}
}

func TestPlanBounds(t *testing.T) {
	for why, p := range map[string]Plan{
		"no such operation":             {Op: numOps},
		"an atomic of 4 bytes":          {Op: CmpSwap, Size: 4},
		"an ATOMIC WRITE of 16 bytes":   {Op: AtomicWrite, Size: 16},
		"a FLUSH without a connection":  {Op: Flush, Type: ib.UC},
		"a negative size":               {Size: -1},
		"a size beyond the buffer":      {Size: maxBuffer + 1},
		"negative queue pairs":          {QPs: -1},
		"too many queue pairs":          {QPs: maxQPs + 1},
		"more buffer than there is":     {Size: maxBuffer / 2, QPs: 3},
		"a negative depth":              {Depth: -1},
		"too deep":                      {Depth: maxDepth + 1},
		"too much outstanding":          {QPs: maxQPs, Depth: maxDepth, Size: 1},
		"a negative post":               {PostList: -1},
		"posts beyond the depth":        {Depth: 4, PostList: 5},
		"latency of posts of several":   {Latency: true, PostList: 2},
		"no path MTU":                   {MTU: ib.MTU4096 + 1},
		"sleeping while memory changes": {Latency: true, Events: true},
		"sleeping in a stream":          {Op: Send, Events: true},
		"latency of two queue pairs":    {Latency: true, QPs: 2},
		"latency of several messages":   {Latency: true, Depth: 2},
		"a timeout beyond the codes":    {Timeout: 32},
		"eight retries":                 {Retry: 8},
	} {
		if err := p.Check(); err == nil {
			t.Errorf("%s: %+v is accepted", why, p)
		}
	}
	largest := Plan{Size: maxBuffer}
	if err := largest.Check(); err != nil {
		t.Errorf("the largest message: %v", err)
	}
}

// TestUsualList checks that the queue has room for several posts.
func TestUsualList(t *testing.T) {
	for _, c := range []struct{ size, depth, want int }{
		{64, 128, 32}, {64, 8, 2}, {64, 3, 1}, {64, 1, 1}, {64, 4096, 32}, {64 << 10, 128, 1},
	} {
		p := Plan{Size: c.size, Depth: c.depth}
		if err := p.Check(); err != nil || p.PostList != c.want {
			t.Errorf("%d bytes, depth %d: posts of %d (%v), want %d", c.size, c.depth, p.PostList, err, c.want)
		}
	}
}

func TestParseOp(t *testing.T) {
	for _, name := range OpNames() {
		if op, err := ParseOp(name); err != nil || op.String() != name {
			t.Errorf("%s is parsed as %v (%v)", name, op, err)
		}
	}
	if op, err := ParseOp("erase"); err == nil {
		t.Errorf("an unknown operation is parsed as %v", op)
	}
}
