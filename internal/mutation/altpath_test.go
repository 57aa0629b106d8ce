//go:build mutation

package mutation

// altPathMutants are bugs of alternate paths by the connection manager, and of
// the faults that choose a path.
var altPathMutants = []mutant{
	{
		name: "path-of-lap-seen-from-the-wrong-side", in: "internal/cm.seen",
		old:    "p.role == Passive",
		new:    "false",
		breaks: "C10",
	},
	{
		name: "messages-stay-on-the-path-that-was-left", in: "internal/cm.follow",
		old:    "p.via = to.address()",
		new:    "",
		breaks: "C10",
	},
	{
		name: "peer-on-the-alternate-path-taken-for-a-stranger", in: "internal/cm.isPeer",
		old:    "from.Remote == p.to.Remote || from.Remote == p.path.Remote || p.overAlternate(from)",
		new:    "from.Remote == p.to.Remote || from.Remote == p.path.Remote",
		breaks: "C10",
	},
	{
		name: "peer-on-the-new-path-taken-for-a-stranger", in: "internal/cm.isPeer",
		old:    "from.Remote == p.path.Remote",
		new:    "false",
		breaks: "C10",
	},
	{
		name: "anybody-is-the-peer", in: "internal/cm.isPeer",
		old:    "from.Remote == p.to.Remote || from.Remote == p.path.Remote || p.overAlternate(from)",
		new:    "true",
		breaks: "C10",
	},
	{
		name: "half-a-path-is-the-alternate-one", in: "internal/cm.overAlternate",
		old:    "ok && from.Remote == alt.Remote && from.Local == alt.Local",
		new:    "ok && from.Remote == alt.Remote",
		breaks: "C10",
	},
	{
		name: "path-that-is-in-use-stays-the-alternate-one", in: "internal/cm.follow",
		old:    "p.path, p.alt, p.moved, p.strayed = to, mad.Path{}, true, false",
		new:    "p.path, p.moved, p.strayed = to, true, false",
		breaks: "C10",
	},
	{
		name: "answers-never-go-over-the-alternate-path", in: "internal/cm.heard",
		old:  "p.strayed = p.overAlternate(from)",
		new:  "p.strayed = false",
		test: "rdmacm TestC10_V15_ArmsAgain",
	},
	{
		name: "alternate-path-loaded-with-the-old-timeout", in: "internal/cm.AltAttr",
		old:    "w.LocalAckTimeout",
		new:    "c.ep.ackTimeout",
		breaks: "C10",
	},
	{
		name: "alternate-path-loaded-and-not-armed", in: "internal/cm.AltAttr",
		old:    "ib.AttrState | ib.AttrAltPath | ib.AttrPathMigState",
		new:    "ib.AttrState | ib.AttrAltPath",
		breaks: "C10",
	},
	{
		name: "connection-does-not-follow-its-queue-pair", in: "internal/hca.Establish",
		old:    "q.OnMigrate($*f)",
		new:    "",
		breaks: "C10",
	},
	{
		name: "migration-told-to-nobody", in: "internal/qp.migrate",
		old:    "m.moved != nil",
		new:    "false",
		breaks: "C10",
	},
	{
		name: "lap-over-the-primary-path-migrates", in: "internal/hca.AnswerLAP",
		old:    "c.Strayed() && same($*a) && m.Query().PathMigState == ib.ARMED",
		new:    "same($*a) && m.Query().PathMigState == ib.ARMED",
		breaks: "C10",
	},
	{
		name: "lap-never-migrates", in: "internal/hca.AnswerLAP",
		old:    "c.Strayed() && same($*a) && m.Query().PathMigState == ib.ARMED",
		new:    "false && same($*a)",
		breaks: "C10",
	},
	{
		name: "armed-queue-pair-keeps-its-alternate-path", in: "internal/hca.LoadAlternate",
		old:    "m.Query().PathMigState == ib.ARMED",
		new:    "false",
		breaks: "C10",
	},
	{
		name: "path-to-nowhere-is-only-rejected", in: "internal/hca.AnswerLAP",
		old:    "errors.Is(err, ib.EADDRNOTAVAIL)",
		new:    "false",
		breaks: "C10",
	},
	{
		name: "lap-taken-against-the-policy", in: "rdmacm.altPathAsked",
		old:  "policy == NoAltPath",
		new:  "false",
		test: "rdmacm TestC10_AltPathRefused",
	},
	{
		name: "path-loaded-behind-the-programs-back", in: "rdmacm.altPathAnswered",
		old:  "l.settings.altPath == AutoAltPath && q != nil",
		new:  "q != nil",
		test: "rdmacm TestC10_AltPathByHand",
	},
	{
		name: "both-sides-arm-again", in: "rdmacm.link.migrated",
		old:  "l.settings.altPath != AutoAltPath || c.Role() != cm.Active || l.qp.engine() == nil",
		new:  "l.settings.altPath != AutoAltPath || l.qp.engine() == nil",
		test: "rdmacm TestC10_V15_PathCut",
	},
	{
		name: "armed-again-without-a-policy", in: "rdmacm.link.migrated",
		old:  "l.settings.altPath != AutoAltPath || c.Role() != cm.Active || l.qp.engine() == nil",
		new:  "c.Role() != cm.Active",
		test: "rdmacm TestC10_AltPathByHand",
	},
	{
		name: "events-of-alternate-paths-without-bound", in: "rdmacm.postIfRoom",
		old:  "b.room() != nil",
		new:  "false",
		test: "rdmacm TestC10_AltPathEventsAreBounded",
	},
	{
		name: "path-of-a-fault-not-compared", in: "internal/fault.matches",
		old:  "l.Has(Path) && s.Way != Way(l.values[Path].num)",
		new:  "false",
		test: "internal/fault TestV15_Path",
	},
	{
		name: "path-lost-one-way-only", in: "internal/fault.Rule.Dir",
		old:  "r.Has(Path)",
		new:  "false",
		test: "internal/fault TestV15_Path",
	},
	{
		name: "forged-source-migrates", in: "internal/qp.admit",
		old:  "comesBy(&$m.path, p.Data) && $m.pkey.Matches(p.BTH.PKey)",
		new:  "true",
		test: "internal/hca TestV15_MigrationAttacks",
	},
	{
		name: "answers-never-migrate", in: "internal/qp.receiveResponse",
		old:    "$c.ep.mig.state != ib.MIGRATED && !$c.ep.mig.follow(now, p)",
		new:    "false",
		breaks: "V15",
	},
	{
		name: "software-migrates-what-is-not-armed", in: "internal/qp.migration.set",
		old:    "$m.state == ib.ARMED",
		new:    "true",
		breaks: "V15",
	},
}
