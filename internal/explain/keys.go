package explain

import (
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// maxKeys is how many keys are remembered. Of those beyond them nothing is told.
const maxKeys = 4096

// keys is what the requests of a capture did to the R_Keys of responders, and with them.
type keys struct {
	known map[keyOf]keyUse
	last  keyOf // the last that was used, so that a stream of requests looks up none
}

// keyOf is an R_Key of the adapter at an address.
type keyOf struct {
	addr netip.Addr
	key  ib.RKey
}

// keyUse is what was last done with a key. Records are 0 for never.
type keyUse struct {
	used        int // record of a request that the responder executed with it
	invalidated int // record of the request that invalidated it since
}

// executed notes that the responder at an address executed a request.
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

func (k *keys) put(of keyOf, use keyUse) {
	if _, ok := k.known[of]; !ok && len(k.known) >= maxKeys {
		return
	}
	if k.known == nil {
		k.known = map[keyOf]keyUse{}
	}
	k.known[of] = use
}

// history says what happened to the key of a request, which the responder refuses, and
// reports whether another request had invalidated it.
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
