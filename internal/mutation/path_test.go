//go:build mutation

package mutation

// pathMutants are bugs of path migration, static rate and rate limit.
var pathMutants = []mutant{
	{
		name: "rearm-not-told-to-the-peer", in: "internal/qp.bit",
		old:    "$m.state == ib.MIGRATED",
		new:    "true",
		breaks: "V15",
	},
	{
		name: "armed-by-a-peer-that-is-not", in: "internal/qp.follow",
		old:    "$m.state == ib.REARM && !p.BTH.MigReq",
		new:    "$m.state == ib.REARM",
		breaks: "V15",
	},
	{
		name: "never-armed", in: "internal/qp.follow",
		old:    "$m.state = ib.ARMED",
		new:    "",
		breaks: "V15",
	},
	{
		name: "armed-asks-for-any-path", in: "internal/qp.admit",
		old:    "comesBy(&$m.path, p.Data) && $m.pkey.Matches(p.BTH.PKey)",
		new:    "$m.pkey.Matches(p.BTH.PKey)",
		breaks: "V15",
	},
	{
		name: "alternate-pkey-not-compared", in: "internal/qp.admit",
		old:    "comesBy(&$m.path, p.Data) && $m.pkey.Matches(p.BTH.PKey)",
		new:    "comesBy(&$m.path, p.Data)",
		breaks: "V15",
	},
	{
		name: "astray-packets-executed", in: "internal/qp.follow",
		old:    "$m.tell(); $m.ep.drop($*drop); return false",
		new:    "$m.tell()",
		breaks: "V15",
	},
	{
		name: "path-mig-err-for-each-packet", in: "internal/qp.tell",
		old:    "!$m.told",
		new:    "true",
		breaks: "V15",
	},
	{
		name: "copy-from-long-ago-migrates", in: "internal/qp.followReplay",
		old:    "p.sign == signMoved && behind <= replayPSNs",
		new:    "p.sign == signMoved",
		breaks: "V15",
	},
	{
		name: "copy-never-migrates", in: "internal/qp.followReplay",
		old:    "p.sign == signMoved && behind <= replayPSNs",
		new:    "false",
		breaks: "V15",
	},
	{
		name: "packet-ahead-answered-over-the-old-path", in: "internal/qp.request",
		old:    "p.sign != signNone",
		new:    "false",
		breaks: "V15",
	},
	{
		name: "uc-migrates-for-any-psn", in: "internal/qp.followUC",
		old:    "d < 0 || d > replayPSNs",
		new:    "d == -1<<23",
		breaks: "V15",
	},
	{
		name: "migration-keeps-the-pkey", in: "internal/qp.migrate",
		old:    "ep.path, ep.pkey = $m.path, $m.pkey",
		new:    "ep.path = $m.path",
		breaks: "V15",
	},
	{
		name: "migration-keeps-the-timeout", in: "internal/qp.migrate",
		old:    "a.AV, a.Port, a.PKeyIndex, a.Timeout = a.AltAV, a.AltPort, a.AltPKeyIndex, a.AltTimeout",
		new:    "a.AV, a.Port, a.PKeyIndex = a.AltAV, a.AltPort, a.AltPKeyIndex",
		breaks: "V15",
	},
	{
		name: "migration-not-told", in: "internal/qp.migrate",
		old:    "ep.raise(ib.EventPathMig)",
		new:    "",
		breaks: "V15",
	},
	{
		name: "used-path-armed-again", in: "internal/qp.migrate",
		old:    "alternate{path: ep.path, pkey: ep.pkey}",
		new:    "alternate{path: ep.path, pkey: ep.pkey, loaded: true}",
		breaks: "V15",
	},
	{
		name: "outstanding-left-on-the-old-path", in: "internal/qp.migrate",
		old:    "$m.req.moved(now)",
		new:    "",
		breaks: "V15",
	},
	{
		name: "retries-not-reloaded-on-the-new-path", in: "internal/qp.moved",
		old:    "$r.retries = $r.ep.attr.RetryCnt",
		new:    "",
		breaks: "V15",
	},
	{
		name: "retries-end-an-armed-connection", in: "internal/qp.countRetry",
		old:    "$r.ep.mig.mayMigrate()",
		new:    "false",
		breaks: "V15",
	},
	{
		name: "lost-address-migrates-to-a-lost-one", in: "internal/qp.mayMigrate",
		old:    "!$m.usable()",
		new:    "false",
		breaks: "V15",
	},
	{
		name: "lost-address-not-noticed", in: "internal/qp.AddressLost",
		old:    "q.ep.path.Src == addr",
		new:    "false",
		breaks: "V15",
	},
	{
		name: "burst-without-bound", in: "internal/qp.sent",
		old:    "p.next < oldest",
		new:    "false",
		breaks: "V17",
	},
	{
		name: "rate-counts-no-headers", in: "internal/qp.ipLength",
		old:    "ipudp.IPv4Len + ipudp.UDPLen + len(seg)",
		new:    "len(seg)",
		breaks: "V17",
	},
	{
		name: "answers-to-reads-not-paced", in: "internal/qp.sendResponses",
		old:    "$r.ep.pace.rate != 0",
		new:    "false",
		breaks: "V17",
	},
	{
		name: "requests-starve-paced-answers", in: "internal/qp.Transmit",
		old:    "!responsesFirst && !q.ep.pace.allows(now)",
		new:    "false",
		breaks: "V17",
	},
	{
		name: "address-handle-not-paced", in: "internal/qp.sendDatagram",
		old:    "ah.pace.sent($*args)",
		new:    "",
		breaks: "V17",
	},
	{
		name: "limit-above-the-static-rate-holds", in: "internal/qp.setPace",
		old:    "p.rate == 0 || kbps*1000 < p.rate",
		new:    "true",
		breaks: "V17",
	},
	{
		name: "port-paced-at-its-own-rate", in: "internal/qp.staticPacer",
		old:  "mbps >= uint64($e.Limits.PortMbps)",
		new:  "false",
		test: "internal/qp TestV17_PortRate",
	},
	{
		name: "paced-burst-asks-for-no-acknowledgement", in: "internal/qp.sendData",
		old:    "ep.pace.last($*args)",
		new:    "false",
		breaks: "V17",
	},
	{
		name: "new-limit-waits-for-the-old-one", in: "internal/qp.SetRateLimit",
		old:    "q.wake()",
		new:    "",
		breaks: "V17",
	},
}
