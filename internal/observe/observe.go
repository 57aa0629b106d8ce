package observe

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"time"
	"unsafe"

	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/printable"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/restrack/file"
)

// Adapter is an adapter of a process, as of the time At.
type Adapter struct {
	Path    string // of its table
	At      time.Time
	Running bool // the process exists; otherwise the table shows the adapter's last state
	Failed  bool // the adapter failed

	Name    string // of the adapter, such as "softhca0"
	Addr    netip.Addr
	GUID    uint64
	Slot    uint8  // upper byte of the QPNs
	MTU     int    // of the port, in bytes of UDP payload
	PID     int    // in the PID namespace PIDNS
	PIDNS   uint64 // inode number
	NetNS   uint64 // inode number
	UID     int
	Command string    // name of the process
	Started time.Time // when the process opened the adapter
	Down    bool      // the host has lost all addresses of the adapter

	// Board names the memory of the counters if several tables may have the same: processes that
	// run one after the other continue the counts there. Empty: the counters are those of this table.
	Board    string
	Counters counters.Set
	Port     Port

	QPs   []QP
	CQs   []CQ
	MRs   []MR
	PDs   []PD
	SRQs  []SRQ
	CMIDs []CMID
	XRCDs []XRCD
	// Missing is the number of objects of each kind that are not shown, because the table was full.
	Missing map[string]uint64
}

// Set reads the adapters that this user may see. It keeps their tables open from one Read to the
// next. It is not safe for concurrent use.
type Set struct {
	files   map[string]*file.Reader
	only    string                 // path of the only table; empty: all
	refused map[string]os.FileInfo // tables that other versions of softhca wrote, not to be opened again
}

// NewSet returns a Set of all adapters that this user may see.
func NewSet() *Set {
	return &Set{files: make(map[string]*file.Reader), refused: make(map[string]os.FileInfo)}
}

// Open returns a Set of the adapter with one table, which may be that of a process that died.
func Open(path string) (*Set, error) {
	s := NewSet()
	s.only = path
	r, err := file.Open(path, boardSize)
	if err != nil {
		return nil, err
	}
	s.files[path] = r
	return s, nil
}

var _ io.Closer = (*Set)(nil)

// boardSize is the size of an adapter's counters.
const boardSize = unsafe.Sizeof(device.Board{})

// maxBytes bounds the tables of one user that a Read reads, in bytes: a user with many large tables
// must not exhaust the memory of a reader that sees those of all users.
const maxBytes = 64 << 20

// ErrTooMuch is the error of a table beyond the limit of 64 MiB for all tables of a user.
var ErrTooMuch = errors.New("not read: the tables of this user have more than 64 MiB")

// Read reads all adapters, sorted by name, address and process. An adapter whose table cannot be
// read is left out; the error says why, and the others are valid all the same.
func (s *Set) Read() ([]*Adapter, error) {
	err := s.find()
	var all []*Adapter
	of := make(map[int]int) // bytes by user
	for _, path := range slices.Sorted(maps.Keys(s.files)) {
		r := s.files[path]
		if of[r.Owner()] += r.Bytes(); of[r.Owner()] > maxBytes {
			err = errors.Join(err, fmt.Errorf("%s: %w", path, ErrTooMuch))
			continue
		}
		a, e := read(r)
		if e != nil {
			err = errors.Join(err, e)
			if s.only == "" {
				_ = r.Close() // it is only read
				delete(s.files, path)
			}
			continue
		}
		all = append(all, a)
	}
	slices.SortFunc(all, compare)
	return all, err
}

// find opens new tables, and closes tables whose files are gone.
func (s *Set) find() error {
	if s.only != "" {
		return nil
	}
	paths, err := file.Find()
	there := make(map[string]bool)
	for _, path := range paths {
		there[path] = true
		if s.files[path] != nil || s.stillRefused(path) {
			continue
		}
		r, e := file.Open(path, boardSize)
		switch {
		case e == nil:
			s.files[path] = r
		case errors.Is(e, restrack.ErrLayout):
			if info, gone := os.Stat(path); gone == nil {
				s.refused[path] = info
			}
			err = errors.Join(err, e)
		case !errors.Is(e, os.ErrNotExist) && !errors.Is(e, os.ErrPermission):
			err = errors.Join(err, e)
		}
	}
	for path, r := range s.files {
		if !there[path] {
			_ = r.Close() // it is only read
			delete(s.files, path)
		}
	}
	for path := range s.refused {
		if !there[path] {
			delete(s.refused, path)
		}
	}
	return err
}

// stillRefused reports whether a file is the one that was no table of this version.
func (s *Set) stillRefused(path string) bool {
	was := s.refused[path]
	if was == nil {
		return false
	}
	is, err := os.Stat(path)
	return err == nil && os.SameFile(was, is)
}

// Close closes all tables.
func (s *Set) Close() (err error) {
	for _, r := range s.files {
		err = errors.Join(err, r.Close())
	}
	clear(s.files)
	return err
}

// read reads one adapter.
func read(r *file.Reader) (*Adapter, error) {
	a := &Adapter{Path: r.Path(), Running: r.Condition() == file.Running}
	err := r.Read(func(v *restrack.View, board []byte) error {
		a.At = time.Now()
		p := v.Process()
		a.describe(&p, v)
		a.UID = r.Owner()
		a.count(r, &p, board)
		a.list(v, &p)
		return nil
	})
	return a, err
}

// describe sets the fields of the process.
func (a *Adapter) describe(p *restrack.Process, v *restrack.View) {
	a.Name = printable.Line(restrack.Text(p.Device[:]), 0)
	a.Command = printable.Line(restrack.Text(p.Command[:]), 0)
	a.Addr, a.GUID, a.Slot, a.MTU = addr(p.Addr), p.GUID, uint8(p.Slot), int(p.MTU)
	a.PID, a.PIDNS, a.NetNS = int(p.PID), p.PIDNS, p.NetNS
	a.Started, a.Failed = time.Unix(0, p.Started), v.Failed()
}

// count copies the counters, a word at a time, from the table or from the file that has them.
func (a *Adapter) count(r *file.Reader, p *restrack.Process, board []byte) {
	if path := restrack.Text(p.Board[:]); path != "" {
		a.Board = fmt.Sprintf("%s:%d", path, p.BoardOffset)
		b, err := r.ReadOwned(path, int64(p.BoardOffset), boardSize)
		if err != nil {
			return // the image has been removed: the counters stay 0
		}
		board = b
	}
	var b device.Board
	copyWords(unsafe.Slice((*byte)(unsafe.Pointer(&b)), boardSize), board)
	a.Counters, a.Down = b.Engine, b.Down.Load() != 0
	a.Port = b.Port.Stats()
}

// compare orders adapters by address, slot, process and time.
func compare(a, b *Adapter) int {
	for _, c := range []int{a.Addr.Compare(b.Addr), int(a.Slot) - int(b.Slot), a.PID - b.PID, a.Started.Compare(b.Started)} {
		if c != 0 {
			return c
		}
	}
	return 0
}
