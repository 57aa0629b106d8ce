package device

import (
	"errors"
	"net/netip"
	"os"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/restrack/file"
)

// TestEndedIsCalledOnce ends adapters in each way: the last counts are passed on once, before the table
// is removed.
func TestEndedIsCalledOnce(t *testing.T) {
	pid := os.Getpid()
	addr := netip.AddrFrom4([4]byte{127, byte(208 + pid>>8&15), byte(pid), 2})
	for how, end := range map[string]func(d *Device) error{
		"closed":           (*Device).Close,
		"process ends":     (*Device).Leave,
		"closed afterward": func(d *Device) error { return errors.Join(d.Leave(), d.Close()) },
	} {
		dir := t.TempDir()
		t.Setenv(file.DirVariable, dir)
		tables := func() int {
			all, err := os.ReadDir(dir)
			must.Do(t, err)
			return len(all)
		}
		calls := 0
		d, err := Open(Config{Addr: addr.String(), Ended: func(b *Board, remove func()) {
			if calls++; b.Engine.SentPkts != 7 || tables() != 1 {
				t.Errorf("%s: %d packets, %d tables", how, b.Engine.SentPkts, tables())
			}
			remove()
		}})
		must.Do(t, err)
		d.board.Engine.SentPkts = 7
		must.Do(t, end(d))
		if calls != 1 || tables() != 0 {
			t.Errorf("%s: %d calls, %d tables left", how, calls, tables())
		}
		_ = d.Close() // it may be closed
	}
}

// TestFailedOpenLeavesNoTable opens adapters that fail in different places: no file of a table stays, and
// no counts are passed on.
func TestFailedOpenLeavesNoTable(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(file.DirVariable, dir)
	pid := os.Getpid()
	addr := netip.AddrFrom4([4]byte{127, byte(208 + pid>>8&15), byte(pid), 3}).String()
	for why, cfg := range map[string]Config{
		"no address of this host": {Addr: "192.0.2.1"},
		"no address":              {Addr: "nonsense"},
		"rules of faults":         {Addr: addr, Env: Environment{Faults: "nonsense"}},
		"GUID, after the port":    {Addr: addr, Env: Environment{GUID: "nonsense"}},
	} {
		cfg.Ended = func(*Board, func()) { t.Errorf("%s: the counts of an adapter that was never open are passed on", why) }
		if d, err := Open(cfg); err == nil {
			t.Errorf("%s: the adapter opens", why)
			must.Do(t, d.Close())
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%s: %v is left, %v", why, left, err)
		}
	}
}
