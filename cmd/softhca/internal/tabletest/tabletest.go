package tabletest

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/restrack/file"
)

// boardSize is the size of an adapter's counters.
const boardSize = unsafe.Sizeof(device.Board{})

// processAt is the offset of the description of the process in a table.
const processAt = 16

// Table is the table of an adapter.
type Table struct {
	*file.File
	Board *device.Board
	QPs   []restrack.Handle[restrack.QPInfo, restrack.QPCounts]
	CQs   []restrack.Handle[restrack.CQInfo, restrack.CQCounts]
}

// Create makes the table of an adapter in the directory that SOFTHCA_TABLES names. The process is
// described as p says, not as this process.
func Create(p restrack.Process) (*Table, error) {
	f, err := file.Create(boardSize)
	if err != nil {
		return nil, err
	}
	t := &Table{File: f, Board: (*device.Board)(f.Board())}
	if err := f.Publish(p); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return t, t.describe(p)
}

// describe replaces the description of the process.
func (t *Table) describe(p restrack.Process) error {
	f, err := os.OpenFile(t.Path(), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(unsafe.Slice((*byte)(unsafe.Pointer(&p)), unsafe.Sizeof(p)), processAt)
	return errors.Join(err, f.Close())
}

// QP adds a queue pair.
func (t *Table) QP(info restrack.QPInfo, state ib.QPState) *restrack.QPCounts {
	info.State = uint8(state)
	h := restrack.Add[restrack.QPInfo, restrack.QPCounts](t.File.Table(), restrack.KindQP, &info)
	t.QPs = append(t.QPs, h)
	return &h.Counts
}

// CQ adds a completion queue.
func (t *Table) CQ(info restrack.CQInfo) *restrack.CQCounts {
	h := restrack.Add[restrack.CQInfo, restrack.CQCounts](t.File.Table(), restrack.KindCQ, &info)
	t.CQs = append(t.CQs, h)
	return &h.Counts
}

// Die leaves the table as that of a process that died: nothing holds its lock.
func (t *Table) Die() error {
	b, err := os.ReadFile(t.Path())
	if err != nil {
		return err
	}
	path := t.Path()
	if err := t.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// World is a few adapters with objects of every kind.
type World struct {
	Sender, Receiver *Table // two ends of an RC connection
	Dead             string // path of the table of a process that died
	steps            uint64
}

// Addr returns an address as tables have it.
func Addr(text string) [16]byte { return netip.MustParseAddr(text).As16() }

// Process returns the description of a process that opened an adapter.
func Process(pid uint64, device, command, addr string) (p restrack.Process) {
	p = restrack.Process{PID: pid, UID: 1000, PIDNS: 4026531836, NetNS: 4026531840, GUID: 0x020000fffe000000 + pid, Addr: Addr(addr), MTU: 4096}
	p.Started = time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC).UnixNano()
	p.Epoch = p.Started
	copy(p.Device[:], device)
	copy(p.Command[:], command)
	return p
}

// NewWorld makes the tables of a World.
func NewWorld() (w *World, err error) {
	w = &World{}
	if w.Sender, err = Create(Process(4242, "softhca0", "ib_write_bw", "10.77.0.2")); err != nil {
		return nil, err
	}
	if w.Receiver, err = Create(Process(4250, "softhca1", "ib_write_bw", "10.77.0.3")); err != nil {
		return nil, errors.Join(err, w.Sender.Close())
	}
	w.fill()
	if err := w.die(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// fill adds objects.
func (w *World) fill() {
	s, r := w.Sender, w.Receiver
	rc := restrack.QPInfo{Num: 0x11, Peer: 0x2a, PD: 1, SendCQ: 1, RecvCQ: 1, Type: uint8(ib.RC), MTU: uint8(ib.MTU4096), PKey: 0xffff, SrcPort: 49152, MaxSend: 128, MaxRecv: 512, Local: Addr("10.77.0.2"), Remote: Addr("10.77.0.3")}
	s.QP(rc, ib.RTS)
	rc.Num, rc.Peer, rc.SrcPort, rc.Local, rc.Remote = rc.Peer, rc.Num, 50321, rc.Remote, rc.Local
	r.QP(rc, ib.RTS)
	s.QP(restrack.QPInfo{Num: 0x12, PD: 1, SendCQ: 2, RecvCQ: 2, Type: uint8(ib.UD), MaxSend: 64, MaxRecv: 64, PKey: 0xffff}, ib.RTS)
	bad := s.QP(restrack.QPInfo{Num: 0x13, Peer: 0x99, PD: 1, SendCQ: 1, RecvCQ: 1, Type: uint8(ib.RC), MTU: uint8(ib.MTU1024), Local: Addr("10.77.0.2"), Remote: Addr("10.77.0.99")}, ib.ERR)
	bad.Errors, bad.LastError, bad.ErrorAt, bad.Retransmitted, bad.Timeouts = 1, uint64(ib.WCRetryExcErr), uint64(5*time.Second), 49, 8
	s.CQ(restrack.CQInfo{Num: 1, Depth: 256})
	s.CQ(restrack.CQInfo{Num: 2, Depth: 64})
	*r.CQ(restrack.CQInfo{Num: 1, Depth: 4096}) = restrack.CQCounts{Produced: 9000, HighWater: 4096, Overflows: 1, Events: 12, Consumed: 6952, Armed: 2}
	t := s.File.Table()
	restrack.Add[restrack.PDInfo, restrack.PDCounts](t, restrack.KindPD, &restrack.PDInfo{Num: 1}).Counts.Users = 5
	restrack.Add[restrack.MRInfo, restrack.NoCounts](t, restrack.KindMR, &restrack.MRInfo{Num: 1, PD: 1, Access: uint32(ib.AccessLocalWrite | ib.AccessRemoteWrite), Length: 16 << 20, Addr: 0x7f0000000000})
	restrack.Add[restrack.MRInfo, restrack.NoCounts](t, restrack.KindMR, &restrack.MRInfo{Num: 2, PD: 1, Form: restrack.FormWindow, Access: uint32(ib.AccessRemoteRead), Length: 4096})
	restrack.Add[restrack.SRQInfo, restrack.NoCounts](t, restrack.KindSRQ, &restrack.SRQInfo{Num: 1, PD: 1, MaxWR: 1024, MaxSGE: 1, XRC: 1, Number: 0x77, CQ: 2, XRCD: 1})
	restrack.Add[restrack.XRCDInfo, restrack.NoCounts](t, restrack.KindXRCD, &restrack.XRCDInfo{Num: 1})
	restrack.Add[restrack.CMIDInfo, restrack.NoCounts](t, restrack.KindCMID, &restrack.CMIDInfo{Num: 7, RemoteID: 9, QPN: 0x11, RemoteQPN: 0x2a, State: uint8(cm.Established), Type: uint8(ib.RC), ServiceID: 0x1061c0f, Local: Addr("10.77.0.2"), Remote: Addr("10.77.0.3"), LocalPort: 40000, RemotePort: 7183})
	restrack.Add[restrack.CMIDInfo, restrack.NoCounts](r.File.Table(), restrack.KindCMID, &restrack.CMIDInfo{Num: 1, State: uint8(cm.Listen), Listener: 1, Type: uint8(ib.RC), ServiceID: 0x1061c0f, LocalPort: 7183})
	for range 3 {
		s.File.Table().Missed(restrack.KindMR)
	}
	s.Board.Engine.Drops[counters.DropNoQP], s.Board.Engine.Drops[counters.DropICRC] = 5, 31
	s.Board.Engine.ReqCQEError = 1
}

// die makes the table of a process that died.
func (w *World) die() error {
	t, err := Create(Process(977, "softhca2", "storaged", "fd00::2"))
	if err != nil {
		return err
	}
	*t.QP(restrack.QPInfo{Num: 0x31, Peer: 0x32, Type: uint8(ib.RC), Local: Addr("fd00::2"), Remote: Addr("fd00::3"), Mig: uint8(ib.ARMED)}, ib.SQD) = restrack.QPCounts{
		SentMessages: 1e6, SentBytes: 1e12, RTT: 18e3, Outstanding: 3, InFlight: 4096, Window: 1 << 20,
	}
	w.Dead = t.Path()
	return t.Die()
}

// Work lets a tenth of a second pass: the sender writes, with some losses, and the receiver answers.
func (w *World) Work() {
	w.steps++
	n := 20000 + 15000*(w.steps%7)
	s, r := &w.Sender.QPs[0].Counts, &w.Receiver.QPs[0].Counts
	s.SentMessages += n
	s.SentPackets += n
	s.SentBytes += 4096 * n
	r.RcvdMessages += n
	r.RcvdPackets += n
	r.RcvdBytes += 4096 * n
	r.SentPackets += n / 4
	s.Retransmitted += n / 8000
	r.RNRSent++
	s.RNRRcvd++
	s.SendPSN, s.AckPSN = s.SentPackets&0xffffff, (s.SentPackets-64)&0xffffff
	r.RecvPSN = s.SendPSN
	s.Window, s.InFlight, s.Outstanding, s.RTT = 1<<20, 64*4096, 64, 23456
	r.RTT, r.Window = 31000, 1<<16
	for i, share := range [...]uint64{0, 0, 0, 1, 2, 8, 60, 20, 5, 2, 1, 0, 1} {
		s.Latency[i] += n * share / 100
	}
	ud := &w.Sender.QPs[1].Counts
	ud.SentMessages += 15
	ud.SentPackets += 15
	ud.SentBytes += 15 * 64
	c := &w.Sender.CQs[0].Counts
	c.Produced += n
	c.Consumed = c.Produced - 200
	c.HighWater, c.Armed, c.Events = 231, 1, c.Events+2
	e := &w.Sender.Board.Engine
	e.SentPkts += n
	e.RcvdPkts += n / 4
	e.RetransPkts = s.Retransmitted + 49
	e.RcvdRNRErr++
	e.Drops[counters.DropDuplicate] += w.steps % 2
	w.Sender.Board.Port.Sent(int(n), int(4200*n))
}

// Close removes the tables.
func (w *World) Close() error {
	err := errors.Join(w.Sender.Close(), w.Receiver.Close())
	if w.Dead != "" {
		err = errors.Join(err, os.Remove(w.Dead))
	}
	return err
}

// Many makes the table of an adapter with n queue pairs.
func Many(n int) (*Table, error) {
	t, err := Create(Process(5000, "softhca9", "many", "10.77.0.9"))
	for i := range uint32(n) {
		if err != nil {
			break
		}
		c := t.QP(restrack.QPInfo{Num: 0x10000 + i, Peer: 0x20000 + i, Type: uint8(ib.RC), Local: Addr("10.77.0.9"), Remote: Addr(fmt.Sprintf("10.78.%d.%d", i>>8&255, i&255))}, ib.RTS)
		c.SentMessages, c.SentBytes, c.Latency[7] = uint64(i*7919%100003), uint64(i)<<12, uint64(i)
	}
	return t, err
}

// Damage overwrites the contents of a copy of a table, except for the words by which readers know
// a table, with some bytes, again and again. It returns the path of the copy.
func (t *Table) Damage(dir string, with []byte) (string, error) {
	b, err := os.ReadFile(t.Path())
	if err != nil {
		return "", err
	}
	for i := processAt; i < len(b) && len(with) > 0; i++ {
		if v := with[(i-processAt)%len(with)]; v != 0 { // 0 keeps what is there
			b[i] = v
		}
	}
	path := filepath.Join(dir, "damaged")
	return path, os.WriteFile(path, b, 0o600)
}
