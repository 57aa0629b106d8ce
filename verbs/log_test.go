package verbs

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// lockedLog is a log that several threads write and the test reads.
type lockedLog struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// logger returns a log at a level, without times.
func (l *lockedLog) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}

// TestLogLevels writes to memory that the peer has not registered, and checks that the
// log has the records of each level and no others.
func TestLogLevels(t *testing.T) {
	packet, state, failed := "RDMA_WRITE_ONLY", "INIT -> RTR", "REM_ACCESS_ERR"
	for _, c := range []struct {
		level    slog.Level
		has, not []string
	}{
		{slog.LevelDebug, []string{packet, state, failed, "adapter open"}, nil},
		{slog.LevelInfo, []string{state, failed, "adapter open"}, []string{packet}},
		{slog.LevelWarn, []string{failed}, []string{packet, state, "adapter open"}},
	} {
		t.Run(c.level.String(), func(t *testing.T) {
			n, text := NewNetwork(), &lockedLog{}
			traced := false
			a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: n, Log: text.logger(c.level), Trace: func(*TraceRecord) { traced = true }}, ib.RC)
			b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: n}, ib.RC)
			connect(t, a, b, func(attr *QPAttr) { attr.Timeout = 19 })
			wr := SendWR{Opcode: ib.WRRDMAWrite, SGList: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() + 1}
			must.Do(t, a.qp.PostSend(wr))
			if wc := a.take(t, 1)[0]; wc.Status != ib.WCRemAccessErr {
				t.Fatalf("the WRITE ended with %v", wc.Status)
			}
			must.Do(t, a.ctx.Close()) // ends the logging
			for _, s := range c.has {
				if !strings.Contains(text.String(), s) {
					t.Errorf("level %v has no %q:\n%s", c.level, s, text)
				}
			}
			for _, s := range c.not {
				if strings.Contains(text.String(), s) {
					t.Errorf("level %v has %q:\n%s", c.level, s, text)
				}
			}
			if !traced {
				t.Error("beside a log, Trace is not called")
			}
		})
	}
}

// TestLogWarnsOfLinkLocal opens adapters whose first GID is link-local, and others.
func TestLogWarnsOfLinkLocal(t *testing.T) {
	for addr, warns := range map[string]bool{"fe80::1,10.0.0.1": true, "10.0.0.1,fe80::1": false, "fe80::1": false} {
		text := &lockedLog{}
		newEndpoint(t, Config{Addr: addr, Network: NewNetwork(), Log: text.logger(slog.LevelWarn)}, ib.RC)
		if got := strings.Contains(text.String(), "GID index 0 is a link-local address"); got != warns {
			t.Errorf("%s: a warning is %v, want %v:\n%s", addr, got, warns, text)
		}
	}
}
