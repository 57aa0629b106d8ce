//go:build linux && cgo

package main

// #include "engine.h"
// #include <stdlib.h>
import "C"

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/environ"
	"github.com/softhca/softhca/internal/eventlog"
	"github.com/softhca/softhca/internal/fabric/fdmark"
	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/internal/sysfs"
)

// adapter is an open adapter of a program in C.
type adapter struct {
	dev     *device.Device
	log     *slog.Logger
	events  *slog.Logger // of the device; nil: the user has asked for none
	host    host
	capture io.WriteCloser  // nil without one
	board   *sysfs.Attached // nil without a sysfs image
	done    chan struct{}
	nasty   nasty.Config
	poller  int // descriptor of the runtime's epoll; -1 if unknown
	leaving sync.Once
	names   namer
	adapter int   // its number, from 0
	clock   int64 // CLOCK_MONOTONIC when the adapter's clock was 0, in ns

	// deliverAll holds taking while it passes events to the program, and destroy while it
	// destroys a subject.
	taking lock.Mutex[lock.EngineEvents]
}

//export softhca_open
func softhca_open(c *C.struct_softhca_config, dev *C.handle_t) C.int {
	a := &adapter{host: host{*c}, done: make(chan struct{})}
	err := a.openLog(C.GoString(c.log_level), C.GoString(c.log_format))
	if err == nil {
		err = a.open(c)
	}
	if err != nil {
		a.log.Error("softhca: no adapter", "err", err)
		return errno(err)
	}
	*dev = newHandle(a)
	return 0
}

// openLog opens the log of an adapter, also if it returns an error. If the user has asked for a log,
// it has the adapter's events too. A set-user-ID program logs in UTC: local time would open the
// file that TZ names.
func (a *adapter) openLog(levelName, format string) error {
	level, wrongLevel := eventlog.Level(levelName)
	options := &slog.HandlerOptions{Level: level}
	if environ.Privileged() {
		options.ReplaceAttr = func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				a.Value = slog.TimeValue(a.Value.Time().UTC())
			}
			return a
		}
	}
	var wrongFormat error
	a.log, wrongFormat = eventlog.NewLogger(os.Stderr, format, options)
	if levelName != "" || format != "" {
		a.events = a.log
	}
	switch {
	case wrongLevel != nil:
		return fmt.Errorf("log level %w: %w", wrongLevel, ib.EINVAL)
	case wrongFormat != nil:
		return fmt.Errorf("log format %w: %w", wrongFormat, ib.EINVAL)
	}
	return nil
}

func (a *adapter) open(c *C.struct_softhca_config) error {
	cfg := device.Config{
		Settings: qp.Settings{MigReq: true, FatalEvents: c.fatal_events != 0},
		Queues:   ring.Allocator{Alloc: alloc, Free: free},
		Adapter:  int(c.adapter),
		Name:     C.GoString(c.name),
		// The header in C describes the log.
		Writes: (*memory.WriteLog)(unsafe.Pointer(c.writes)),
		// softhca_modify_qp asks for the capability at each call, as Linux does.
		Privileged: true,
		// Adapters with one address list it several times, once for each version of RoCE, and
		// programs for them use index 1 or 3. A second entry of the version that the adapter
		// speaks keeps index 1 usable; another address would need another socket.
		SecondGID: true,
		Env: device.Environment{
			ConfigDir: C.GoString(c.config_dir), GUID: C.GoString(c.guid),
			Faults: C.GoString(c.faults), FaultsSeed: C.GoString(c.faults_seed), Wire: C.GoString(c.wire),
			Nasty: C.GoString(c.nasty), Sites: C.GoString(c.sites), RetrySpeedup: C.GoString(c.retry_speedup),
		},
	}
	if c.refused != nil {
		cfg.Refused = a.host.refused
	}
	if c.changed != nil {
		cfg.Changed = a.host.changed
	}
	cfg.Warn = func(format string, args ...any) { a.log.Warn("softhca: " + fmt.Sprintf(format, args...)) }
	if a.events != nil {
		cfg.Log = a.events.With("pid", os.Getpid(), "device", cfg.Name)
	}
	// First, while the runtime still finds free descriptors.
	if err := findRoom(); err != nil {
		return err
	}
	a.poller = markRuntime()
	addProcessors()
	if name := C.GoString(c.capture); name != "" {
		w, err := openCapture(name)
		switch {
		case err == nil:
			a.capture, cfg.Capture, cfg.PromptCapture = w, w, true // programs in C may end without closing anything
		case strings.HasPrefix(name, captureSocket): // the reader has ended before this process
			a.log.Warn("softhca: the capture has no reader", "err", err)
		default:
			return fmt.Errorf("capture: %w", err)
		}
	}
	if root := C.GoString(c.sysfs); root != "" {
		a.attach(&cfg, root)
	}
	err := a.openAt(cfg, C.GoString(c.addr))
	if err != nil {
		return errors.Join(err, a.closeFiles())
	}
	if a.nasty, err = nasty.Parse(cfg.Env.Nasty); err != nil { // the device has opened with it
		return errors.Join(err, a.dev.Close(), a.closeFiles())
	}
	a.adapter = cfg.Adapter
	a.clock = originOf(a.dev)
	go a.deliver()
	if c, ok := a.capture.(syscall.Conn); ok {
		fdmark.Conn(c)
	}
	return nil
}

// attach has the adapter count where the preload library finds the counters in /sys: on the board of
// the image or, while another process has that one, in the adapter's table.
func (a *adapter) attach(cfg *device.Config, root string) {
	var err error
	switch a.board, err = sysfs.Attach(root, cfg.Adapter); {
	case err == nil:
		cfg.Board = a.board.Board
		cfg.BoardFile, cfg.BoardOffset = a.board.Place()
	case errors.Is(err, ib.EBUSY):
		number := cfg.Adapter
		cfg.Ended = func(b *device.Board, remove func()) {
			if err := sysfs.AddEnded(root, number, b, remove); err != nil {
				a.log.Info("softhca: the counters in /sys lose those of this process", "err", err)
			}
		}
	case errors.Is(err, fs.ErrPermission): // root started this process, which has become another user
		a.log.Info("softhca: this user cannot see counters in /sys", "err", err)
	default:
		a.log.Warn("softhca: the counters in /sys are without those of this process", "err", err)
	}
}

// captureSocket is the prefix of a Unix socket's path that takes a capture.
const captureSocket = "unix:"

// openCapture opens the destination of an adapter's captures: a file, or a socket with a
// reader.
func openCapture(name string) (io.WriteCloser, error) {
	if path, ok := strings.CutPrefix(name, captureSocket); ok {
		return net.Dial("unix", path)
	}
	// Several adapters may append to one file, one after the other: the result is one
	// capture.
	name = strings.ReplaceAll(name, "%p", strconv.Itoa(os.Getpid()))
	return os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
}

// openAt opens the adapter on an address, or on the first loopback address that no other adapter
// has.
func (a *adapter) openAt(cfg device.Config, addr string) (err error) {
	if cfg.Addr = addr; addr != "" {
		a.dev, err = device.Open(cfg)
		return err
	}
	cfg.Exclusive = true
	tried := 0
	for ip := range device.Loopbacks() {
		cfg.Addr = ip.String()
		if a.dev, err = device.Open(cfg); !errors.Is(err, ib.EADDRINUSE) {
			return err
		}
		tried++
	}
	return fmt.Errorf("%d addresses of 127.0.0.0/8 are in use, or another program has port 4791 on all addresses; set SOFTHCA_ADDR to an address: %w", tried, err)
}

// closeFiles closes the adapter's files when it is closed.
func (a *adapter) closeFiles() (err error) {
	if a.board != nil {
		err = a.board.Close()
	}
	if a.capture != nil {
		err = errors.Join(err, a.capture.Close())
	}
	return err
}

// alloc and free manage the memory of queues. It is C memory, since C reads and writes it.
func alloc(size int) []byte {
	p := C.calloc(1, C.size_t(size))
	if p == nil {
		return nil
	}
	return unsafe.Slice((*byte)(p), size)
}

func free(b []byte) { C.free(unsafe.Pointer(unsafe.SliceData(b))) }

//export softhca_close
func softhca_close(dev C.handle_t) C.int {
	a := of[*adapter](dev)
	a.logFaults()
	err := a.dev.Close()
	<-a.done
	return end(dev, a.code("close adapter", errors.Join(err, a.closeFiles())))
}

//export softhca_flush
func softhca_flush(dev C.handle_t) C.int {
	a := of[*adapter](dev)
	err := a.dev.Leave()
	a.logFaults()
	return a.code("flush", err)
}

// logFaults logs how often each fault rule acted, once: when the adapter is closed or the
// program ends.
func (a *adapter) logFaults() {
	a.leaving.Do(func() {
		for _, s := range a.dev.FaultStats() {
			a.log.Info("fault rule", "rule", s.Rule, "acted", s.Applied)
		}
	})
}

// deliver passes asynchronous events to the program until the adapter is closed.
func (a *adapter) deliver() {
	defer close(a.done)
	for range a.dev.EventReady() {
		if !a.deliverAll() {
			return
		}
	}
}

// deliverAll passes on all pending events, and reports whether the adapter is open.
func (a *adapter) deliverAll() bool {
	a.taking.Lock()
	defer a.taking.Unlock()
	for {
		ev, ok, err := a.dev.TakeEvent()
		switch {
		case err != nil:
			return false
		case !ok:
			return true
		case ev.Err != nil:
			a.failed(ev.Err)
		}
		if ev.About == nil {
			a.host.event(nil, ev.Type)
			continue
		}
		a.host.event(ev.About.Owner.(*subject).user, ev.Type)
		ev.About.Ack() // the library waits for the program's acknowledgement
	}
}

// failed reports that the adapter has failed. If the program has also closed the descriptor of
// the runtime's poller, the runtime is about to end the process with a traceback that does not
// help the user. So failed ends the process with its own message.
func (a *adapter) failed(err error) {
	if !errors.Is(err, syscall.EBADF) && !errors.Is(err, syscall.ENOTSOCK) {
		a.log.Error("softhca: the adapter has failed", "err", err)
		return
	}
	a.log.Error("softhca: the program has closed descriptors of the adapter: start it with softhca run, which keeps them open", "err", err)
	if a.poller >= 0 && !fdmark.Marked(a.poller) {
		os.Exit(1)
	}
}

//export softhca_describe
func softhca_describe(dev C.handle_t, out *C.struct_softhca_adapter) C.int {
	a := of[*adapter](dev)
	if err := a.dev.Alive(); err != nil {
		return a.code("query adapter", err)
	}
	h, l, p := a.dev.HCA, a.dev.HCA.Limits(), a.dev.Port.Caps()
	*out = C.struct_softhca_adapter{
		node_guid: C.uint64_t(h.NodeGUID()), max_msg_size: qp.MaxMessage,
		clock: C.uint64_t(a.clock), max_dm_size: C.uint64_t(l.MaxDMSize),
		max_qp: C.uint32_t(l.MaxQP), max_qp_wr: C.uint32_t(l.MaxQPWR), max_sge: C.uint32_t(l.MaxSGE), max_inline: C.uint32_t(l.MaxInlineData),
		max_cq: C.uint32_t(l.MaxCQ), max_cqe: C.uint32_t(l.MaxCQE), max_srq: C.uint32_t(l.MaxSRQ), max_srq_wr: C.uint32_t(l.MaxSRQWR),
		max_mr: C.uint32_t(l.MaxMR), max_mw: C.uint32_t(l.MaxMW), max_pd: C.uint32_t(l.MaxPD), max_ah: C.uint32_t(l.MaxAH), max_rd_atomic: C.uint32_t(l.MaxRDAtomic),
		max_mcast_grp: C.uint32_t(l.MaxMcastGrp), max_mcast_qp_attach: C.uint32_t(l.MaxMcastQPAttach),
		max_total_mcast_qp_attach: C.uint32_t(l.MaxTotalMcastQPAttach),
		port_state:                C.uint32_t(ib.PortActive), active_mtu: C.uint32_t(h.ActiveMTU()),
		gids: C.uint32_t(min(h.GIDs(), C.SOFTHCA_GIDS)), pkeys: C.uint32_t(min(len(h.PKeys()), C.SOFTHCA_PKEYS)),
	}
	out.nasty_numbers = C.uint64_t(a.nasty.SeedOf(nasty.Numbers, a.adapter))
	if a.dev.PortDown() {
		out.port_state = C.uint32_t(ib.PortDown)
	}
	for i := range int(out.gids) {
		*(*ib.GID)(unsafe.Pointer(&out.gid[i])) = h.GID(i)
	}
	for i := range int(out.pkeys) {
		out.pkey[i] = C.uint16_t(h.PKeys()[i])
	}
	if nif, err := iface.Owner(p.Addrs[0]); err == nil {
		for i := range min(len(nif.Name), len(out._interface)-1) {
			out._interface[i] = C.char(nif.Name[i])
		}
		out.if_index = C.uint32_t(nif.Index)
	}
	return 0
}
