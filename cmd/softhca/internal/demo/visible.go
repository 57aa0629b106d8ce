package demo

import (
	"bytes"
	"context"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// atomicWrite is the scene of ATOMIC WRITE and FLUSH.
func (s *stage) atomicWrite(ctx context.Context) error {
	s.title("Atomic write and flush")
	s.text(0, "A replaces 8 bytes of B's memory in one piece: a program there reads the old ones or the new ones, never a mixture. Then A "+
		"flushes these bytes: the answer says that every program at B sees them. A flush can also wait until they are in the file of mapped memory.")
	wr := verbs.SendWR{
		WRID: 9, Opcode: ib.WRAtomicWrite, SGList: []verbs.SGE{s.a.mr.SGE(source+8, 8)},
		RemoteAddr: s.b.mr.Addr() + cell, RKey: s.b.mr.RKey(),
	}
	if err := s.post(ctx, wr); err != nil {
		return err
	}
	s.check(bytes.Equal(s.a.part(source+8, 8), s.b.part(cell, 8)), "ATOMIC_WRITE completed: B has the 8 bytes of A")
	err := s.post(ctx, verbs.SendWR{
		WRID: 10, Opcode: ib.WRFlush, Flush: verbs.Flush{Length: 8, Type: verbs.FlushGlobal}, RemoteAddr: wr.RemoteAddr, RKey: wr.RKey,
	})
	if err != nil {
		return err
	}
	s.check(bytes.Equal(s.a.part(source+8, 8), s.b.part(cell, 8)), "FLUSH completed: every program at B sees them")
	return nil
}
