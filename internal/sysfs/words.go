//go:build linux

package sysfs

import (
	"fmt"
	"unsafe"

	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/fabric"
)

// word is a file whose text is made of words of boards. Its spec is what the
// preload library understands (capi/preload/value.c): "@N,P,Q:A+B/D" is the sum
// of the words at bytes A and B of all boards of adapter N, divided by D. The
// board that a process attaches is at byte P of the file of the boards, and the
// counts of ended processes are at byte Q; other boards are in the tables of
// running processes. "@N,P,Q:A?X|Y" is X if the word at A is 0 in the board of a
// running process, and otherwise Y.
type word struct{ name, spec string }

// boardAt is the number of an adapter in the file of the boards.
type boardAt uintptr

func boardOf(adapter int) boardAt { return boardAt(adapter) }

// start returns the offset of the adapter's part of the file of the boards.
func (b boardAt) start() uintptr { return uintptr(b) * boardSize }

// at returns the spec of the sum of words at offsets in the Board.
func (b boardAt) at(offsets ...uintptr) string {
	spec := fmt.Sprintf("@%d,%d,%d:", b, b.start()+boardStart, b.start()+endedStart)
	for i, o := range offsets {
		if i > 0 {
			spec += "+"
		}
		spec += fmt.Sprint(o)
	}
	return spec
}

// downWord returns the spec of a text that depends on whether the port is up.
func (b boardAt) downWord(up, down string) string {
	return b.at(unsafe.Offsetof(device.Board{}.Down)) + "?" + up + "|" + down
}

// dataUnit is the unit of a port's data counters: octets divided by 4.
const dataUnit = "/4"

// portWords are the counters of a port, as InfiniBand knows them. Counters of a
// physical link or of subnet management, which do not exist on Ethernet, are 0;
// counters without a true value are left out.
func (o boardAt) portWords() []word {
	var b device.Board
	port := unsafe.Offsetof(b.Port)
	drops := unsafe.Offsetof(b.Engine) + unsafe.Offsetof(b.Engine.Drops)
	drop := func(d counters.Drop) uintptr { return drops + uintptr(d)*unsafe.Sizeof(b.Engine.Drops[0]) }
	sentBytes, receivedBytes := port+unsafe.Offsetof(b.Port.SentBytes), port+unsafe.Offsetof(b.Port.ReceivedBytes)
	all := []word{
		{"excessive_buffer_overrun_errors", o.at(port + unsafe.Offsetof(b.Port.Overflows))},
		{"port_rcv_data", o.at(receivedBytes) + dataUnit},
		{"port_rcv_errors", o.at(drop(counters.DropMalformed), drop(counters.DropICRC),
			port+unsafe.Offsetof(b.Port.Truncated), port+unsafe.Offsetof(b.Port.BadChecksums))},
		{"port_rcv_packets", o.at(port + unsafe.Offsetof(b.Port.ReceivedPackets))},
		{"port_xmit_data", o.at(sentBytes) + dataUnit},
		{"port_xmit_discards", o.at(port + unsafe.Offsetof(b.Port.SendErrors))},
		{"port_xmit_packets", o.at(port + unsafe.Offsetof(b.Port.SentPackets))},
		{"link_downed", o.at(unsafe.Offsetof(b.Engine) + unsafe.Offsetof(b.Engine.LinkDowned))},
	}
	for _, name := range []string{
		"VL15_dropped", "link_error_recovery", "local_link_integrity_errors", "port_rcv_constraint_errors",
		"port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors", "port_xmit_constraint_errors",
		"port_xmit_wait", "symbol_error",
	} {
		all = append(all, word{name, "0"})
	}
	return all
}

// engineWords are the adapter's counters under their own names, except events_lost,
// which the engine does not count, and after them those of shared memory.
func (o boardAt) engineWords() (all []word) {
	var s counters.Set
	// A Set contains only words: each gets its own offset as value, so that Each
	// returns the offset of every name.
	words := unsafe.Slice((*uint64)(unsafe.Pointer(&s)), unsafe.Sizeof(s)/unsafe.Sizeof(uint64(0)))
	for i := range words {
		words[i] = uint64(i)
	}
	var b device.Board
	engine := unsafe.Offsetof(b.Engine)
	s.Each(func(name string, place uint64) {
		where := []uintptr{engine + uintptr(place)*unsafe.Sizeof(place)}
		switch name {
		case "events_lost":
			return
		case "send_err":
			where = append(where, unsafe.Offsetof(b.Port)+unsafe.Offsetof(b.Port.SendErrors))
		}
		all = append(all, word{name, o.at(where...)})
	})
	near := unsafe.Offsetof(b.Port) + unsafe.Offsetof(b.Port.Near)
	for i := range b.Port.Near {
		all = append(all, word{fabric.NearCount(i).String(), o.at(near + uintptr(i)*unsafe.Sizeof(b.Port.Near[i]))})
	}
	return all
}
