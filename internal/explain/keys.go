package explain

import (
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// maxKeys is the maximum number of keys remembered. Findings have no history of others.
const maxKeys = 4096

// keys records how the requests of a capture used and invalidated the R_Keys of responders.
type keys struct {
	known map[keyOf]keyUse
	last  keyOf // the last used key, so that a stream of requests needs no look-up
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
}

// executed records that the responder at an address executed a request.
func (k *keys) executed(responder netip.Addr, o *op) {
	if o.inv.record > 0 {
		k.put(keyOf{responder, o.invKey}, keyUse{invalidated: o.inv.record})
		k.last = keyOf{}
	}
	if o.kind == roce.KindSend {
		return
	}
	if of := (keyOf{responder, o.rkey}); of != k.last {
		k.put(of, keyUse{used: o.begun.record})
		k.last = of
	}
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

// history describes the earlier use of the key of a refused request, and reports
// whether another request had invalidated the key.
func (k *keys) history(responder netip.Addr, o *op) (text string, invalidated bool) {
	use, ok := k.known[keyOf{responder, o.rkey}]
	switch {
	case !ok || o.kind == roce.KindSend:
		return "", false
	case use.invalidated > 0:
		return fmt.Sprintf("; record %d, a SEND with invalidate, invalidated this R_Key", use.invalidated), true
	default:
		return fmt.Sprintf("; record %d used the same R_Key with success", use.used), false
	}
}
