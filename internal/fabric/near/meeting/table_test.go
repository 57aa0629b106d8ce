package meeting

import (
	"net/netip"
	"testing"
)

func TestTableKeepsThePeersUsedLast(t *testing.T) {
	table := NewTable()
	peer := func(slot int) *Peer {
		return &Peer{Identity: Identity{netip.MustParseAddr("10.0.0.1"), uint8(slot), uint64(slot)}}
	}
	peers := make([]*Peer, MaxPeers)
	for i := range peers {
		peers[i] = peer(i)
		if leaves := table.Add(peers[i]); leaves != nil {
			t.Fatalf("peer %d leaves although there is room", leaves.Identity.Slot)
		}
	}
	table.Use(peers[0])
	if leaves := table.Add(peer(100)); leaves != peers[1] || table.Len() != MaxPeers {
		t.Errorf("%+v leaves, want the peer used least recently; %d peers", leaves, table.Len())
	}
	if table.Find(peers[1].Identity.Key()) != nil || table.Find(peers[0].Identity.Key()) != peers[0] {
		t.Error("the table does not contain what it should")
	}
	next := peer(0)
	if leaves := table.Add(next); leaves != peers[0] || table.Len() != MaxPeers {
		t.Errorf("%+v leaves, want the previous peer at the place", leaves)
	}
	table.Remove(peers[0]) // which left before
	if table.Find(next.Identity.Key()) != next {
		t.Error("the end of a previous peer removes its successor")
	}
	table.Remove(next)
	if leaves := table.Add(peer(101)); leaves != nil {
		t.Errorf("%+v leaves although there is room again", leaves)
	}
}
