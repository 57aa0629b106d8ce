package rdmacm

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// QPAttr returns the attributes of the connection, with their mask, that move a queue
// pair to INIT, RTR or RTS, for programs that move their own. Before there is a
// connection, INIT gives the peer no rights. EINVAL before the ID has an adapter, for
// an ID of RD, for another state, and while the attributes are unknown: those of RTR and
// RTS are known from CONNECT_REQUEST or CONNECT_RESPONSE on.
func (id *ID) QPAttr(to ib.QPState) (a ib.QPAttr, mask ib.AttrMask, err error) {
	err = id.runOn("QP attributes", func(clock.Instant) (err error) {
		if id.at.dev == nil {
			return fmt.Errorf("the ID has no adapter yet: %w", ib.EINVAL)
		}
		if id.at.typ == ib.RD {
			return fmt.Errorf("an RD queue pair needs no attributes of a connection, which moves its EE context by itself: %w", ib.EINVAL)
		}
		if id.link.conn == nil || id.at.typ == ib.UD {
			a, mask, err = plainAttr(id.at.typ, to)
			return err
		}
		// A passive side may have set the timeout since the request arrived.
		id.link.settings.chooseTimeout(id.link.conn)
		a, mask, err = id.link.conn.QPAttr(to)
		a.MaxRDAtomic, a.MaxDestRDAtomic = min(a.MaxRDAtomic, id.at.dev.maxRD), min(a.MaxDestRDAtomic, id.at.dev.maxRD)
		return err
	})
	return a, mask, err
}

// plainAttr returns the attributes that do not depend on a peer.
func plainAttr(typ ib.QPType, to ib.QPState) (ib.QPAttr, ib.AttrMask, error) {
	a := ib.QPAttr{State: to}
	switch {
	case to == ib.INIT && typ == ib.UD:
		a.Port, a.QKey = 1, DefaultQKey
		return a, ib.AttrState | ib.AttrPKeyIndex | ib.AttrPort | ib.AttrQKey, nil
	case to == ib.INIT:
		a.Port = 1
		return a, ib.AttrState | ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAccessFlags, nil
	case to == ib.RTR && typ == ib.UD:
		return a, ib.AttrState, nil
	case to == ib.RTS && typ == ib.UD:
		return a, ib.AttrState | ib.AttrSQPSN, nil
	}
	return ib.QPAttr{}, 0, fmt.Errorf("attributes for QP state %v without a connection: %w", to, ib.EINVAL)
}
