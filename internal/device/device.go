package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/broker"
	"github.com/softhca/softhca/internal/check/live"
	"github.com/softhca/softhca/internal/check/writes"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/driver"
	"github.com/softhca/softhca/internal/eventlog"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/restrack/file"
	"github.com/softhca/softhca/internal/trace"
)

// Device is an open adapter. Calls on a nil one fail like those on a closed
// one; any goroutine may make them.
type Device struct {
	HCA  *hca.HCA    // for the thread of its control plane, except for what never changes
	Port fabric.Port // as the driver sees it: with all wrappers
	// Check checks the program's use of the adapter; nil for no check. It belongs to the verbs, which call it.
	Check *live.Checker

	drv    *driver.Driver
	lease  *broker.Lease // nil for a lone process
	closed atomic.Bool
	faults *injector // nil if there are no fault rules
	board  *Board
	table  *file.File                    // of the objects; nil for none
	ended  func(b *Board, remove func()) // Config.Ended
	ending sync.Once                     // has called ended
	warn   func(format string, args ...any)
	log    *eventlog.Log // nil for none
	// explains: refusals are traced.
	explains bool

	events    eventQueue
	watchers  watchers
	addresses addressWatch
	writes    writeBacks
	unlogged  func() // called when the adapter has ended; see package internal/check/writes
}

var _ io.Closer = (*Device)(nil)

// Open opens an adapter.
func Open(cfg Config) (*Device, error) {
	ended := func() {}
	var checker atomic.Pointer[live.Checker] // nil until the adapter is open
	if cfg.Check != nil {
		cfg.Refused = func(r *trace.Record) { checker.Load().Refused(r) }
		cfg.Changed = func(n ib.QPN, index uint32) { checker.Load().Changed(n, index) }
	}
	switch {
	case cfg.Check != nil && cfg.Writes == nil:
		cfg.Writes = writes.Log()
	case cfg.Writes == nil:
		ended = writes.Unlogged()
	}
	table := cfg.track()
	d, err := openWith(cfg, table)
	if err != nil {
		ended()
		return nil, errors.Join(err, table.Close())
	}
	d.unlogged = ended
	d.Check = cfg.Check.New(func() int { return d.HCA.ActiveMTU().Bytes() })
	checker.Store(d.Check)
	return d, nil
}

// openWith opens an adapter whose table is not nil, or that has none.
func openWith(cfg Config, table *file.File) (*Device, error) {
	if cfg.Board == nil {
		cfg.Board = new(Board)
	}
	log := cfg.eventLog()
	var rare bool
	cfg.Trace, rare = cfg.tracer(log)
	cfg.Board.Down.Store(0)
	cfg.Board.Port.Begin()
	faults, err := newInjector(&cfg)
	if err != nil {
		return nil, err
	}
	behaviour, err := nasty.Parse(cfg.Env.Nasty)
	if err != nil {
		return nil, fmt.Errorf("%s %w", nastyEnv, err)
	}
	dice := behaviour.New(cfg.Adapter)
	if cfg.Settings.RetrySpeedup, err = cfg.Env.retrySpeedup(); err != nil {
		return nil, err
	}
	port, lease, err := cfg.openPort(faults)
	if err != nil {
		return nil, err
	}
	guid, _, err := cfg.guid(port.Caps().Addrs[0])
	if err != nil {
		err = errors.Join(err, port.Close())
		lease.Close()
		return nil, err
	}
	d := &Device{Port: port, lease: lease, faults: faults, board: cfg.Board, table: table, ended: cfg.Ended, warn: cfg.Warn, log: log, explains: cfg.Trace != nil}
	d.events.init()
	d.writes.write, d.writes.ended = writeBack, d.writtenBack
	d.watchers.all = make(map[*func(clock.Instant, error)]struct{})
	d.HCA, err = hca.New(hca.Config{
		Caps: port.Caps(), Rand: cfg.source(), QPNSlot: cfg.QPNSlot, Shared: lease != nil, NodeGUID: guid, Raise: d.raise,
		Settings: cfg.Settings, Queues: cfg.Queues, Writes: cfg.Writes, Trace: cfg.Trace, TraceRare: rare, Changed: cfg.Changed, Privileged: cfg.Privileged, SecondGID: cfg.SecondGID,
		Counters: &cfg.Board.Engine, ListenGrace: cm.DefaultListenGrace, WriteBack: d.writes.add,
		CancelWriteBack: d.writes.cancel, Backlog: cfg.backlog, Table: table.Table(),
		Nasty: dice, Pause: spin, Reject: faults.reject,
	})
	if err != nil {
		err = errors.Join(err, port.Close())
		lease.Close()
		return nil, err
	}
	faults.attach(d.HCA)
	d.drv = driver.Start(port, d.HCA, d.fatal)
	cfg.publish(table, port, guid, d.Time(0).UnixNano())
	if lease != nil {
		lease.Introduce(d.connections)
	}
	faults.begin(d)
	if cfg.Network == nil {
		d.watchAddresses()
	}
	return d, nil
}

// Close closes the device. It notifies watchers, and wakes threads that wait
// for its events or sleep on its completion queues.
func (d *Device) Close() error {
	if d == nil || d.closed.Swap(true) {
		return ib.ErrInvalidHCA
	}
	d.faults.stop()
	d.addresses.stop()
	d.writes.stop()
	// A failed adapter has already notified its watchers.
	_ = d.drv.Control(func(now clock.Instant) {
		d.watchers.tell(now, nil)
		d.HCA.CM().SendLate(now)
	})
	if !d.drv.Failed() {
		d.lease.Leave()
	}
	err := d.drv.Close()
	d.lease.Close()
	d.events.close()
	d.log.Close()
	d.end(d.table.Close)
	d.unlogged()
	return err
}

// Leave is called before the process ends without Close. It sends the packets that are due, so that no
// peer waits for an answer, and waits up to 200 ms for room in full ports, and up to 100 ms for
// another process that ends at the same time.
func (d *Device) Leave() error {
	if !d.Usable() {
		return ib.ErrInvalidHCA
	}
	_ = d.Control(func(now clock.Instant) error { // a failed device sends nothing
		d.HCA.CM().SendLate(now)
		return nil
	})
	err := d.drv.Drain()
	// The shard's thread, which goes on, writes the counts.
	last := func() error { d.end(d.table.Remove); return nil }
	if d.Control(func(clock.Instant) error { return d.HCA.Enter(last) }) != nil {
		_ = last() // the adapter has failed: its threads have ended
	}
	if err == nil {
		d.lease.Leave()
	}
	d.log.Close()
	return err
}

// fatal is called by the driver, on the thread of the control plane, when it dies.
func (d *Device) fatal(cause error) {
	d.table.Table().Fail()
	d.raiseFatal(cause)
	d.watchers.tell(0, cause)
	d.events.wakeAll() // woken threads see that the device has failed
}

// Usable reports whether d is open.
func (d *Device) Usable() bool { return d != nil && !d.closed.Load() }

// Alive returns the error of calls on objects of d, nil if d is usable.
func (d *Device) Alive() error {
	switch {
	case !d.Usable():
		return ib.ErrInvalidHCA
	case d.drv.Failed():
		return driver.ErrDead
	}
	return nil
}

// Control runs f as the thread of the control plane, and sends the resulting packets: for
// everything that uses the tables of objects or the connection manager. The data path goes on.
// f must not block, and calls neither Control nor Do. Errors: f's, ib.ErrInvalidHCA, or that of
// a device that has failed.
func (d *Device) Control(f func(now clock.Instant) error) error {
	return d.run((*driver.Driver).Control, f)
}

// Do runs f as the shard's thread, as Control does for the control plane: for what concerns
// only one object of the data path, or its counters.
func (d *Device) Do(f func(now clock.Instant) error) error { return d.run((*driver.Driver).Do, f) }

// run runs f in a plane.
func (d *Device) run(in func(*driver.Driver, func(now clock.Instant)) error, f func(now clock.Instant) error) error {
	if !d.Usable() {
		return ib.ErrInvalidHCA
	}
	var err error
	if e := in(d.drv, func(now clock.Instant) { err = f(now) }); e != nil {
		return e
	}
	return err
}

// Settle waits until the shard's thread has finished its current work. A
// closed or failed device has none.
func (d *Device) Settle() { _ = d.Do(func(clock.Instant) error { return nil }) }

// Call is Control for a verb, given by its Go name, which fault rules may make fail.
func (d *Device) Call(verb string, f func(now clock.Instant) error) error {
	if err := d.Called(verb, nil); err != nil {
		return err
	}
	return d.Control(f)
}

// Time returns an instant of the engine as a time of the system's clock.
func (d *Device) Time(t clock.Instant) time.Time { return d.drv.Time(t) }

// Post sends the requests posted to q, at once or together with later ones; see
// driver.Driver.Post.
func (d *Device) Post(q *qp.QP, work qp.Posted) { d.drv.Post(q, work) }

// SendOverdue sends requests that have waited long enough; see driver.Driver.
func (d *Device) SendOverdue() { d.drv.SendOverdue() }

// PostsWait reports whether requests wait to be sent with later ones; see
// driver.Driver.
func (d *Device) PostsWait() bool { return d.drv.PostsWait() }

// Armed tells the driver that a program has armed a completion queue and may
// sleep; see driver.Driver.
func (d *Device) Armed() { d.drv.Armed() }

// Woke tells the driver that a program was woken; see driver.Driver.
func (d *Device) Woke() { d.drv.Woke() }

// Sleep makes the caller sleep, at the port if possible; see
// driver.Driver.Sleep.
func (d *Device) Sleep(ctx context.Context, awake func() bool, elsewhere func()) {
	d.drv.Sleep(ctx, awake, elsewhere)
}

// SleepOn is Sleep with a limit, and with descriptors that end the sleep; see
// driver.Driver.SleepOn.
func (d *Device) SleepOn(s *driver.Sleeper) { d.drv.SleepOn(s) }

// Progress lets the device receive and send; see driver.Driver.Progress.
func (d *Device) Progress() { d.drv.Progress() }

// EachCounter calls f with the adapter's counters, those of Linux's Soft-RoCE
// under their own names first.
func (d *Device) EachCounter(f func(name string, value uint64)) error {
	var n counters.Set
	var m gsi.Counters
	var k cm.Counters
	err := d.Control(func(clock.Instant) error {
		return d.HCA.Enter(func() error {
			n, m, k = d.HCA.Counters(), d.HCA.GSI().Counters(), d.HCA.CM().Counters()
			return nil
		})
	})
	if err != nil {
		return err
	}
	port := d.Port.Stats()
	n.SendErr += port.SendErrors
	n.EventsLost = d.events.lostCount()
	n.Each(f)
	m.Each(f)
	k.Each(f)
	f("port_truncated", port.Truncated)
	f("port_overflows", port.Overflows)
	f("port_bad_checksums", port.BadChecksums)
	for i, v := range port.Near {
		f(fabric.NearCount(i).String(), v)
	}
	return nil
}
