package device

import (
	"cmp"
	"errors"
	"unsafe"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/restrack/file"
)

// boardSize is the size of a Board.
const boardSize = unsafe.Sizeof(Board{})

// track creates the table of the adapter's objects, in which other processes see them. An adapter
// works without one. Adapters that only describe themselves, or use a network within the process,
// have none.
func (c *Config) track() *file.File {
	if c.Idle || c.Network != nil {
		return nil
	}
	f, err := file.Create(boardSize)
	if err != nil {
		c.noTable(err)
		return nil
	}
	if c.Board == nil {
		c.Board = (*Board)(f.Board())
	}
	return f
}

// noTable logs why other processes do not see the adapter's objects.
func (c *Config) noTable(err error) {
	if c.Warn != nil && !errors.Is(err, file.ErrOff) {
		c.Warn("other processes do not see the objects of this adapter: %v", err)
	}
}

// tableTrouble logs an error of the table, which is none of the adapter.
func (d *Device) tableTrouble(err error) {
	if err != nil && d.warn != nil {
		d.warn("remove the table of objects: %v", err)
	}
}

// end removes the table, and first passes on the counts if the adapter has not done so.
func (d *Device) end(remove func() error) {
	drop := func() { d.tableTrouble(remove()) }
	passed := false
	d.ending.Do(func() {
		if passed = d.ended != nil; passed {
			d.ended(d.board, drop)
		}
	})
	if !passed {
		drop()
	}
}

// publish makes the table visible to other processes.
func (c *Config) publish(f *file.File, port fabric.Port, guid uint64, epoch int64) {
	if f == nil {
		return
	}
	caps := port.Caps()
	p := restrack.Process{
		GUID: guid, Slot: uint64(c.QPNSlot), Addr: restrack.Addr(caps.Addrs[0]), MTU: uint64(caps.MTU), Epoch: epoch,
		BoardOffset: uint64(c.BoardOffset),
	}
	copy(p.Device[:len(p.Device)-1], cmp.Or(c.Name, "softhca0"))
	if len(c.BoardFile) < len(p.Board) {
		copy(p.Board[:], c.BoardFile)
	}
	if err := f.Publish(p); err != nil {
		c.noTable(err)
	}
}
