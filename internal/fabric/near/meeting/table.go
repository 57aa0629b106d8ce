package meeting

// MaxPeers is the maximum number of peers of a process.
const MaxPeers = 64

// Table holds the peers of a process. It is not safe for concurrent use.
type Table struct {
	peers map[Key]*Peer
	uses  uint64
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{peers: make(map[Key]*Peer, MaxPeers)} }

// Add adds a peer. It returns the peer that has to leave: the previous one at the place, or the one
// that was used least recently if the table is full; nil if none has to.
func (t *Table) Add(p *Peer) (leaves *Peer) {
	if leaves = t.peers[p.Identity.Key()]; leaves == nil && len(t.peers) == MaxPeers {
		for _, other := range t.peers {
			if leaves == nil || other.used < leaves.used {
				leaves = other
			}
		}
	}
	if leaves != nil {
		t.Remove(leaves)
	}
	t.peers[p.Identity.Key()] = p
	t.Use(p)
	return leaves
}

// Find returns the peer at a place, nil if there is none.
func (t *Table) Find(k Key) *Peer { return t.peers[k] }

// Use marks a peer as the one that was used last.
func (t *Table) Use(p *Peer) {
	t.uses++
	p.used = t.uses
}

// Remove removes a peer, unless another one has its place.
func (t *Table) Remove(p *Peer) {
	if k := p.Identity.Key(); t.peers[k] == p {
		delete(t.peers, k)
	}
}

// Len returns the number of peers.
func (t *Table) Len() int { return len(t.peers) }
