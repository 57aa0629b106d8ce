package explain

import (
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// maxKeys is the maximum number of keys remembered, and of shared receive queues. Findings about
// further ones have no history.
const maxKeys = 4096

// keys records how the requests of a capture used and invalidated the R_Keys of responders, and
// which shared receive queues of XRC they reached.
type keys struct {
	known  map[keyOf]keyUse
	last   keyOf           // the last used key, apart from known: a stream of requests needs no look-up
	use    keyUse          // of last
	queues map[queueOf]int // record of a request to the queue that was executed
}

// queueOf is the number of a shared receive queue of the adapter at an address.
type queueOf struct {
	addr netip.Addr
	srqn ib.SRQN
}

// keyOf is an R_Key of the adapter at an address.
type keyOf struct {
	addr netip.Addr
	key  ib.RKey
}

// keyUse is the last use of a key. Record 0 means never.
type keyUse struct {
	used        int // record of an executed request with the key
	invalidated int // record of the request that invalidated the key since
	kind        roce.Kind
	va          uint64 // range of the executed request
	length      int
}

// covers reports whether the use shows that a request was once allowed: the use was of the same kind,
// and its range includes the range of the request.
func (u *keyUse) covers(o *op) bool {
	ahead := o.va - u.va
	return u.used > 0 && !o.altered && u.kind == o.kind && o.length > 0 && ahead <= uint64(u.length) && o.length <= u.length-int(ahead)
}

// executed records that the responder at an address executed a request.
func (k *keys) executed(responder netip.Addr, o *op) {
	if o.srqn != 0 {
		remember(&k.queues, maxKeys, queueOf{responder, o.srqn}, o.begun.record)
	}
	if o.inv.record > 0 {
		k.store()
		k.put(keyOf{responder, o.invKey}, keyUse{invalidated: o.inv.record})
	}
	if o.kind == roce.KindSend {
		return
	}
	if of := (keyOf{responder, o.rkey}); of != k.last {
		k.store()
		k.last = of
	}
	k.use = keyUse{used: o.begun.record, kind: o.kind, va: o.va, length: o.length}
}

// store moves the use of the last key into the table.
func (k *keys) store() {
	if k.last != (keyOf{}) {
		k.put(k.last, k.use)
	}
	k.last = keyOf{}
}

func (k *keys) put(of keyOf, use keyUse) { remember(&k.known, maxKeys, of, use) }

// remember sets a value of a map, which may be nil, unless the key is new and the map has its
// maximum number of keys.
func remember[K comparable, V any](known *map[K]V, limit int, key K, value V) {
	if _, ok := (*known)[key]; !ok && len(*known) >= limit {
		return
	}
	if *known == nil {
		*known = map[K]V{}
	}
	(*known)[key] = value
}

// access returns the rule for a request that was refused with a remote access error, and
// describes the earlier use of its key.
func (k *keys) access(responder netip.Addr, o *op) (rule ruleID, history string) {
	k.store()
	switch use, ok := k.known[keyOf{responder, o.rkey}]; {
	case !ok || o.kind == roce.KindSend:
		return accessRuleOf(o.kind), ""
	case use.invalidated > 0:
		return keyInvalidated, fmt.Sprintf("; record %d, a SEND with invalidate, invalidated this R_Key", use.invalidated)
	case use.covers(o):
		return keyGone, fmt.Sprintf("; record %d used the same R_Key for the same bytes with success", use.used)
	default:
		return accessRuleOf(o.kind), fmt.Sprintf("; record %d used the same R_Key with success", use.used)
	}
}

// accessRuleOf returns the rule for a refused request with a key of which nothing is known.
func accessRuleOf(k roce.Kind) ruleID {
	switch k {
	case roce.KindReadRequest:
		return readRefused
	case roce.KindCompareSwap, roce.KindFetchAdd:
		return atomicRefused
	case roce.KindFlush:
		return flushRefused
	default:
		return writeRefused
	}
}

// invalid returns the rule for a request that was refused as invalid, and describes its shared receive
// queue.
func (k *keys) invalid(responder netip.Addr, o *op) (rule ruleID, queue string) {
	if o.srqn != 0 {
		queue = fmt.Sprintf(", for shared receive queue %v", o.srqn)
	}
	used, reached := k.queues[queueOf{responder, o.srqn}]
	switch {
	case o.unaligned():
		return unalignedAtomic, queue
	case o.srqn == 0:
		return invalidRequest, ""
	case !reached:
		return queueUnknown, queue
	default:
		return invalidRequest, fmt.Sprintf("%s, which record %d reached", queue, used)
	}
}

// unaligned reports whether the message is an atomic or an ATOMIC WRITE at an address that is not
// a multiple of 8.
func (o *op) unaligned() bool {
	switch o.kind {
	case roce.KindCompareSwap, roce.KindFetchAdd, roce.KindAtomicWrite:
		return o.va%8 != 0
	default:
		return false
	}
}
