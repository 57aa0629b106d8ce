package qp

import "github.com/softhca/softhca/ib"

// Largest values of attributes that are fields of a packet or of a table.
const (
	maxTimeout   = 31 // 5-bit code
	maxRetry     = 7  // 3-bit count
	maxRNRTimer  = 31 // 5-bit code
	maxSL        = 15
	maxFlowLabel = 1<<20 - 1
)

// accessOfQP are the rights that a queue pair can be given. Only the remote
// ones have a meaning for it; Linux accepts the others without effect, and some
// programs (uDAPL) set every flag that they know.
const accessOfQP = ib.AccessRemote | ib.AccessLocalWrite | ib.AccessFlushGlobal | ib.AccessFlushPersistent |
	ib.AccessMWBind | ib.AccessZeroBased | ib.AccessOnDemand | ib.AccessHugeTLB | ib.AccessRelaxedOrdering

// valueChecks holds the check of every attribute that has a range. Every PSN is
// valid.
var valueChecks = [...]struct {
	attr  ib.AttrMask
	check func(modifyCall) *ModifyError
}{
	{ib.AttrAccessFlags, (modifyCall).checkAccess},
	{ib.AttrPKeyIndex, func(c modifyCall) *ModifyError { return c.checkPKey("", c.attr.PKeyIndex) }},
	{ib.AttrPort, (modifyCall).checkOwnPort},
	{ib.AttrQKey, (modifyCall).checkQKey},
	{ib.AttrAV, (modifyCall).checkPath},
	{ib.AttrPathMTU, (modifyCall).checkMTU},
	{ib.AttrTimeout, func(c modifyCall) *ModifyError { return c.atMost("timeout", c.attr.Timeout, maxTimeout) }},
	{ib.AttrRetryCnt, func(c modifyCall) *ModifyError { return c.atMost("retry count", c.attr.RetryCnt, maxRetry) }},
	{ib.AttrRNRRetry, func(c modifyCall) *ModifyError { return c.atMost("RNR retry count", c.attr.RNRRetry, maxRetry) }},
	{ib.AttrMaxRDAtomic, func(c modifyCall) *ModifyError {
		return c.atMost("initiator depth", c.attr.MaxRDAtomic, c.lim.MaxRDAtomic)
	}},
	{ib.AttrAltPath, (modifyCall).checkAltPath},
	{ib.AttrMinRNRTimer, func(c modifyCall) *ModifyError {
		return c.atMost("min RNR timer", c.attr.MinRNRTimer, maxRNRTimer)
	}},
	{ib.AttrMaxDestRDAtomic, func(c modifyCall) *ModifyError {
		return c.atMost("responder resources", c.attr.MaxDestRDAtomic, c.lim.MaxDestRDAtomic)
	}},
	{ib.AttrPathMigState, (modifyCall).checkMigration},
	{ib.AttrCap, (modifyCall).checkResize},
	{ib.AttrDestQPN, (modifyCall).checkDestQPN},
}

func (c modifyCall) atMost(what string, v, limit uint8) *ModifyError {
	if v > limit {
		return c.refuse(ib.EINVAL, "%s %d; the most is %d", what, v, limit)
	}
	return nil
}

func (c modifyCall) checkAccess() *ModifyError {
	if bad := c.attr.AccessFlags &^ accessOfQP; bad != 0 {
		return c.refuse(ib.EINVAL, "a queue pair has no access right %v", bad)
	}
	return nil
}

func (c modifyCall) checkPKey(which string, index uint16) *ModifyError {
	if int(index) >= c.lim.PKeys {
		return c.refuse(ib.EINVAL, "%sP_Key index %d; the table has %d entries", which, index, c.lim.PKeys)
	}
	return nil
}

func (c modifyCall) checkPort(which string, port uint8) *ModifyError {
	if port == 0 || port > c.lim.Ports {
		return c.refuse(ib.EINVAL, "%sport %d; the ports are 1 to %d", which, port, c.lim.Ports)
	}
	return nil
}

// checkOwnPort checks the port of the queue pair. In SQD there is a path, which starts at the
// port: a new port needs a new path.
func (c modifyCall) checkOwnPort() *ModifyError {
	if e := c.checkPort("", c.attr.Port); e != nil {
		return e
	}
	if c.from.State == ib.SQD && c.attr.Port != c.from.Port && c.mask&ib.AttrAV == 0 {
		return c.refuse(ib.EINVAL, "port %d without a path from it; the path starts at port %d", c.attr.Port, c.from.Port)
	}
	return nil
}

// checkQKey allows controlled Q_Keys only to privileged programs (IBA 10.2.5).
func (c modifyCall) checkQKey() *ModifyError {
	if c.attr.QKey&ib.QKeyControlled != 0 && !c.lim.Privileged && c.from.Type != ib.GSI {
		return c.refuse(ib.EPERM, "Q_Key %#x is controlled", uint32(c.attr.QKey))
	}
	return nil
}

// checkPath checks the primary path. Its port is the one given at INIT, or the
// one that the same call gives; in SQD the address vector alone may name a new
// port, if the table allows a new port in this transition.
func (c modifyCall) checkPath() *ModifyError {
	want := c.from.Port
	switch _, optional, _ := Transition(c.from.Type, c.from.State, c.next); {
	case c.mask&ib.AttrPort != 0:
		want = c.attr.Port
	case optional&ib.AttrPort != 0:
		want = c.attr.AV.Port
	}
	if c.attr.AV.Port != want {
		return c.refuse(ib.EINVAL, "path of port %d for a queue pair on port %d", c.attr.AV.Port, want)
	}
	return c.checkAV("", &c.attr.AV)
}

func (c modifyCall) checkAV(which string, a *ib.AHAttr) *ModifyError {
	if e := c.checkPort(which+"path: ", a.Port); e != nil {
		return e
	}
	switch {
	case a.DGID.Addr().IsUnspecified():
		return c.refuse(ib.EINVAL, "%spath: no destination GID", which)
	case a.DGID.IsMulticast():
		return c.refuse(ib.EINVAL, "%spath: destination %v is a multicast group", which, a.DGID)
	case int(a.SGIDIndex) >= c.lim.GIDs:
		return c.refuse(ib.EINVAL, "%spath: source GID index %d has no GID", which, a.SGIDIndex)
	case a.HopLimit == 0:
		return c.refuse(ib.EINVAL, "%spath: hop limit 0", which)
	case a.FlowLabel > maxFlowLabel:
		return c.refuse(ib.EINVAL, "%spath: flow label %#x has more than 20 bits", which, a.FlowLabel)
	case a.SL > maxSL:
		return c.refuse(ib.EINVAL, "%spath: service level %d; the most is %d", which, a.SL, maxSL)
	case !a.StaticRate.Valid():
		return c.refuse(ib.EINVAL, "%spath: no static rate has the code %d", which, uint8(a.StaticRate))
	}
	return nil
}

func (c modifyCall) checkMTU() *ModifyError {
	if m := c.attr.PathMTU; !m.Valid() || m > c.lim.ActiveMTU {
		return c.refuse(ib.EINVAL, "path MTU code %d; the port's is %d", m, c.lim.ActiveMTU)
	}
	return nil
}

func (c modifyCall) checkDestQPN() *ModifyError {
	if c.attr.DestQPN > ib.QPNMask {
		return c.refuse(ib.EINVAL, "destination QPN %v has more than 24 bits", c.attr.DestQPN)
	}
	return nil
}

// checkAltPath checks the path that migration would use (V15).
func (c modifyCall) checkAltPath() *ModifyError {
	a := c.attr
	if !c.lim.APM {
		return c.refuse(ib.EOPNOTSUPP, "ALT_PATH: no automatic path migration here")
	}
	if a.AltPort != a.AltAV.Port {
		return c.refuse(ib.EINVAL, "alternate path of port %d for alternate port %d", a.AltAV.Port, a.AltPort)
	}
	if e := c.checkAV("alternate ", &a.AltAV); e != nil {
		return e
	}
	if e := c.checkPKey("alternate ", a.AltPKeyIndex); e != nil {
		return e
	}
	return c.atMost("alternate timeout", a.AltTimeout, maxTimeout)
}

// checkMigration checks the migration state asked for: only the device enters
// ARMED; REARM needs an alternate path and a state from which RTS is reachable;
// MIGRATED requested in ARMED is a migration (V15). Every queue pair that
// cannot migrate is MIGRATED, so that needs no capability.
func (c modifyCall) checkMigration() *ModifyError {
	switch m := c.attr.PathMigState; {
	case m != ib.MIGRATED && m != ib.REARM:
		return c.refuse(ib.EINVAL, "migration state %v cannot be asked for", m)
	case m == ib.REARM && !c.lim.APM:
		return c.refuse(ib.EOPNOTSUPP, "PATH_MIG_STATE: no automatic path migration here")
	case m == ib.REARM && c.next != ib.RTS:
		return c.refuse(ib.EINVAL, "migration state %v only on the way to RTS", m)
	case m == ib.REARM && c.from.Migration == ib.ARMED:
		return c.refuse(ib.EINVAL, "migration state %v: the queue pair is %v", m, ib.ARMED)
	case m == ib.REARM && !c.from.AltPath && c.mask&ib.AttrAltPath == 0:
		return c.refuse(ib.EINVAL, "migration state %v without an alternate path: load one with ALT_PATH", m)
	case m == ib.MIGRATED && c.from.Migration == ib.REARM:
		return c.refuse(ib.EINVAL, "migration state %v: the queue pair is %v, and migrates when it is %v", m, ib.REARM, ib.ARMED)
	}
	return nil
}

func (c modifyCall) checkResize() *ModifyError {
	if !c.lim.Resize {
		return c.refuse(ib.EOPNOTSUPP, "CAP: queues cannot be resized here")
	}
	return nil
}
