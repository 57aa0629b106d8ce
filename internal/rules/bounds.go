package rules

import (
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// reached says, for each bound of the packages in bounded, which test reaches it: the
// package and the test. For a bound without a test it gives the reason, after a dash.
var reached = map[string]string{
	"internal/check/live.maxDepth":      "internal/check/live TestStacksAreBounded",
	"internal/check/live.maxEnded":      "internal/check/live TestEndedRegionsAreBounded",
	"internal/check/live.maxFrames":     "internal/check/live TestStacksAreBounded",
	"internal/check/live.maxKnown":      "internal/check/live TestFindingsAreBounded",
	"internal/check/live.maxLeft":       "internal/check/live TestLeftObjectsAreBounded",
	"internal/check/live.maxStacks":     "internal/check/live TestStacksAreBounded",
	"internal/cm.maxAllowance":          "internal/cm TestC6_EachREQEarnsAREP",
	"internal/cm.maxEarly":              "internal/cm TestC7_EarlyIsShared",
	"internal/cm.maxExaminations":       "internal/cm TestC7_ExaminationsAreBounded",
	"internal/cm.maxFlowLabel":          "internal/cm TestC3_BadParameters",
	"internal/cm.maxLate":               "internal/cm TestK2_LateMessagesAreBounded",
	"internal/cm.mostDelay":             "internal/cm TestK2_MessagesAreLateAndRepeated",
	"internal/cm.maxPeerWait":           "internal/cm TestC6_PeersTimesAreBounded",
	"internal/cm.maxSL":                 "internal/cm TestC3_BadParameters",
	"internal/device.maxRetrySpeedup":   "internal/device TestRetrySpeedupIsANumber",
	"internal/device.MaxEvents":         "verbs TestV16_ManyEventsAreCounted",
	"internal/driver.mostAbsences":      "internal/driver TestGuests",
	"internal/driver.mostAlone":         "internal/driver TestDistrust",
	"internal/driver.mostAside":         "internal/driver TestPollers",
	"internal/driver.mostBrief":         "internal/driver TestBriefPrograms",
	"internal/driver.mostCoalesce":      "internal/driver TestCoalescer",
	"internal/driver.mostCrowded":       "internal/driver TestLingerCrowdStays",
	"internal/driver.mostLooks":         "internal/driver TestLooksAreBounded",
	"internal/driver.mostMissed":        "internal/driver TestTakenLockWhileWatched",
	"internal/driver.maxSuppressed":     "internal/driver TestSparedIsBounded",
	"internal/eventlog.maxBurst":        "internal/eventlog TestLinesAreLimited",
	"internal/eventlog.maxDetails":      "internal/eventlog TestSortsOfEvents",
	"internal/fabric.MaxGroups":         "internal/fabric/udp TestGroupsAreBoundedAndLeaveNothing",
	"internal/fabric/capture.maxNotes":  "internal/fabric/capture TestNotesAreBounded",
	"internal/fabric/iface.maxAddrs":    "internal/fabric/iface TestCleanRefusesWhatIsNoPort",
	"internal/fabric/iface.maxStack":    "internal/fabric/iface TestVirtualLooksThroughTheStack",
	"internal/fabric/ipudp.MaxLen":      "- the size of the longest header",
	"internal/fabric/ipudp.MaxPayload":  "internal/fabric/ipudp TestChecksum",
	"internal/fabric/near.maxRoutes":    "internal/fabric/near TestRoutesAreBounded",
	"internal/fabric/near.mostPause":    "internal/fabric/near TestPausesAreBounded",
	"internal/fabric/near.mostQueued":   "internal/fabric/near TestBusyNetwork",
	"internal/fabric/pipe.maxRunBytes":  "internal/fabric/pipe TestWhatCannotBeSentIsCounted",
	"internal/fabric/raw.maxAddrs":      "internal/fabric/raw TestOpenExplainsWhatIsWrong",
	"internal/fabric/udp.MaxSlots":      "internal/fabric/udp TestNobodyElseJoins",
	"internal/fault.MaxRules":           "internal/fault TestErrors",
	"internal/fault.maxDuration":        "internal/fault TestErrors",
	"internal/fault.maxLate":            "internal/fault TestReorderEnds",
	"internal/fault.maxListed":          "- the words of a hint, of which there are fewer or many more",
	"internal/fault.maxOffset":          "internal/fault TestErrors",
	"internal/fault.maxQueue":           "internal/fault TestHeldBound",
	"internal/fault.maxShown":           "internal/fault TestLongLine",
	"internal/fault.maxText":            "internal/fault TestErrors",
	"internal/fault.maxName":            "internal/fault TestErrors",
	"internal/fault/sites.maxProcesses": "internal/fault/sites TestTooManyProcesses",
	"internal/fault/sites.maxProgram":   "internal/fault/sites TestNames",
	"internal/fault/sites.maxSiblings":  "internal/fault/sites TestTooManyProcesses",
	"internal/flow.maxGrant":            "internal/flow TestSocketUnknown",
	"internal/flow.maxPause":            "internal/flow TestSocketStuck",
	"internal/flow.maxPauseStep":        "internal/flow TestSocketPause",
	"internal/flow.maxSockets":          "internal/flow TestSocketsAreForgotten",
	"internal/gsi.maxAgents":            "internal/gsi TestC12_Register",
	"internal/hca.maxDMAlign":           "verbs TestM3_DeviceMemoryRefused",
	"internal/hca.maxArrived":           "internal/driver TestDataFlowsInStorm",
	"internal/judge.maxArrivals":        "internal/judge TestArrivalsAreBounded",
	"internal/judge.maxHex":             "- what is printed of a packet",
	"internal/judge.maxLadder":          "- what is printed of a difference",
	"internal/judge.maxExtensions":      "- in real time: a run against a peer that never falls silent takes long",
	"internal/judge.maxPosts":           "- the requests of one line, of which a script has more or fewer",
	"internal/judge.maxReport":          "- 64 MiB of JSON take long to read",
	"internal/judge.maxTopics":          "- the size of a file of the project's own",
	"internal/memory.maxDraws":          "internal/memory TestStuckSource",
	"internal/memory.maxObjects":        "internal/memory TestFull",
	"internal/pcapfile.maxEntry":        "internal/pcapfile TestForeignEntries",
	"internal/pcapfile.maxFields":       "internal/pcapfile TestForeignEntries",
	"internal/pcapfile.maxInterfaces":   "internal/pcapfile TestMemory",
	"internal/pcapfile.maxPacketBlock":  "internal/pcapfile TestLongComments",
	"internal/pcapfile.maxTime":         "internal/pcapfile TestForeignEntries",
	"internal/pcapfile.maxTags":         "internal/pcapfile TestLinkLayers",
	"internal/memory.mostPause":         "internal/memory TestK2_EndBeforeStart",
	"internal/qp.mostWaiting":           "internal/qp TestK2_TooManyLate",
	"internal/qp.mostEarly":             "internal/qp TestK2_LateCompletions",
	"internal/qp.mostHeld":              "internal/qp TestK2_TooManyLate",
	"internal/qp.mostLate":              "internal/qp TestK2_LateCompletions",
	"internal/qp.mostShort":             "internal/qp TestK2_LeftOut",
	"internal/qp.MaxMessage":            "internal/hca TestAttacks",
	"internal/qp.MaxModerationCount":    "internal/qp TestM7_ModerationBounds",
	"internal/qp.MaxModerationPeriod":   "internal/qp TestM7_ModerationBounds",
	"internal/qp.maxGarbage":            "internal/qp TestL2_KeptMemoryOfAnotherSize",
	"internal/qp.maxDelay":              "internal/hca TestK2_DelaysAreBounded",
	"internal/qp.maxHeldAdapter":        "internal/qp TestL2_KeptHeap",
	"internal/qp.maxHeldQueuePair":      "internal/qp TestL2_KeeperBounds",
	"internal/qp.maxFlowLabel":          "internal/qp TestV10_Path",
	"internal/qp.maxRNRTimer":           "internal/qp TestV10_Ranges",
	"internal/qp.maxRetry":              "internal/qp TestV10_Ranges",
	"internal/qp.maxSL":                 "internal/qp TestV10_Path",
	"internal/qp.maxTimeout":            "internal/qp TestV10_Ranges",
	"internal/qp.maxSums":               "- the window of a peer holds fewer packets of the smallest path MTU",
	"internal/script.maxBatches":        "- a guard against an engine that never stops sending",
	"internal/script.maxBytes":          "internal/script TestScriptErrors",
	"internal/script.maxFires":          "- a guard against an engine whose timers never stop",
	"internal/script.maxLiteral":        "internal/script TestData",
	"internal/script.maxPass":           "internal/script TestScriptErrors",
	"internal/script.maxPosts":          "internal/script TestScriptErrors",
	"internal/script.maxTerms":          "internal/script TestData",
	"internal/shard.maxPacket":          "- the size of the longest packet",
	"internal/restrack.MaxExtents":      "internal/restrack TestTableIsBounded",
	"internal/restrack.maxReads":        "internal/restrack TestWriterDiedWhileItWrote",
	"internal/restrack/file.maxDead":    "internal/restrack/file TestDeadTablesAreBounded",
	"internal/restrack/file.maxFound":   "- each takes a file, and 4096 adapters take more memory than a test should",
	"internal/userdir.maxSquatted":      "internal/userdir TestAllNamesSquatted",
	"internal/sysfs.maxCPUs":            "internal/sysfs TestCPUMask",
	"internal/sysfs.maxInterfaces":      "internal/sysfs TestFewInterfacesAreShown",
	"internal/sysfs.maxName":            "internal/sysfs TestNames",

	"internal/pcapfile/clocks.maxCaptures": "internal/pcapfile/clocks TestManyCaptures",
	"internal/pcapfile/clocks.maxRepeats":  "internal/pcapfile/clocks TestRepeatsAreBounded",
	"internal/pcapfile/clocks.maxSamples":  "internal/pcapfile/clocks TestSamplesAreBounded",

	"internal/fabric/near/meeting.MaxPeers":     "internal/fabric/near TestPeersAreBounded",
	"internal/fabric/near/meeting.maxAttempts":  "internal/fabric/near/meeting TestAttemptsAreBounded",
	"internal/fabric/near/meeting.maxStrangers": "internal/fabric/near/meeting TestStrangersAreBounded",
	"internal/fabric/near/meeting.mostWakes":    "internal/fabric/near/meeting TestWakesNeverBlock",
	"internal/fabric/near/ring.maxCount":        "internal/fabric/near/ring TestPacketsOfARecordAreBounded",
	"internal/fabric/near/ring.maxSize":         "internal/fabric/near/ring TestSizes",

	"internal/check.maxBytes":           "internal/check TestRecordsAreBounded",
	"internal/check.maxFindings":        "internal/check TestRecordsAreBounded",
	"internal/check.maxFrames":          "internal/check TestRecordsAreBounded",
	"internal/check.maxLine":            "internal/check TestRecordsAreBounded",
	"internal/check.maxListed":          "internal/check TestTextsAreBounded",
	"internal/check.maxName":            "internal/check TestHostileFiles",
	"internal/check.maxPath":            "internal/check TestTextsAreBounded",
	"internal/check.maxProblems":        "internal/check TestTextsAreBounded",
	"internal/check.maxProcesses":       "internal/check TestTextsAreBounded",
	"internal/check.maxRecords":         "internal/check TestRecordsAreBounded",
	"internal/check.maxStacks":          "internal/check TestRecordsAreBounded",
	"internal/check.maxSuppressFile":    "internal/check TestWrongSuppressions",
	"internal/check.maxSuppressions":    "internal/check TestWrongSuppressions",
	"internal/check.maxText":            "internal/check TestTextsAreBounded",
	"internal/check.maxWord":            "internal/check TestTextsAreBounded",
	"internal/check/symbols.MaxDebug":   "internal/check/symbols TestDebugInformation",
	"internal/check/symbols.maxEntries": "- a guard against debug information without an end",
	"internal/check/symbols.maxFiles":   "internal/check/symbols TestFilesAreBounded",
	"internal/check/symbols.maxInlined": "- a guard against debug information without an end",
	"internal/check/symbols.maxName":    "internal/check/symbols TestDemangling",
	"internal/check/symbols.maxOrigins": "- a guard against entries that refer to each other",
	"internal/check/symbols.maxSymbols": "- two million symbols take long to read",
}

// bounded are the packages whose bounds are in the table.
var bounded = []string{
	"internal/check", "internal/cm", "internal/deadline", "internal/device", "internal/driver", "internal/eventlog", "internal/fabric", "internal/fault", "internal/gsi",
	"internal/flow", "internal/hca", "internal/identity", "internal/judge", "internal/memory", "internal/packet", "internal/pcapfile", "internal/qp", "internal/ring",
	"internal/script", "internal/shard", "internal/restrack", "internal/restrack/file", "internal/sysfs", "internal/trace", "internal/userdir",
}

// boundName matches the name of a constant that is a bound.
var boundName = regexp.MustCompile(`^(max|Max|most|Most)[A-Z]`)

// checkBounds requires for each bound a test that reaches it, or a reason why there is none,
// and rejects a row of the table for a removed bound.
func checkBounds(m *Module, report reporter) {
	checkRows(m, report)
	for _, p := range m.Packages {
		if !slices.ContainsFunc(bounded, func(dir string) bool { return p.Path == dir || strings.HasPrefix(p.Path, dir+"/") }) ||
			strings.HasSuffix(p.Path, "/rig") {
			continue
		}
		for _, f := range p.Sources() {
			for _, n := range constants(f.AST) {
				if boundName.MatchString(n.Name) {
					checkBound(m, p.Path+"."+n.Name, n.Pos(), report)
				}
			}
		}
	}
}

// checkRows reports the rows of the table whose constant was removed, in a module that has the
// table.
func checkRows(m *Module, report reporter) {
	table := token.NoPos
	gone := maps.Clone(reached)
	for _, p := range m.Packages {
		for _, f := range p.Sources() {
			if f.Name == "internal/rules/bounds.go" {
				table = f.AST.Package
			}
			for _, n := range constants(f.AST) {
				delete(gone, p.Path+"."+n.Name)
			}
		}
	}
	if table != token.NoPos && len(gone) > 0 {
		report(table, "the table of bounds names constants that are not there: %s", strings.Join(slices.Sorted(maps.Keys(gone)), ", "))
	}
}

func checkBound(m *Module, name string, pos token.Pos, report reporter) {
	by := reached[name]
	if strings.HasPrefix(by, "- ") {
		return
	}
	pkg, test, ok := strings.Cut(by, " ")
	switch {
	case !ok:
		report(pos, "the bound %s is not in the table: say which test reaches it", name)
	case !m.hasTest(pkg, test):
		report(pos, "the bound %s is reached by %s, which is not there", name, by)
	}
}

// constants returns the names of a file's package constants.
func constants(f *ast.File) (names []*ast.Ident) {
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, s := range g.Specs {
				names = append(names, s.(*ast.ValueSpec).Names...)
			}
		}
	}
	return names
}

// hasTest reports whether a package has a test.
func (m *Module) hasTest(pkg, test string) (has bool) {
	m.EachFunc(func(f *File, fn *ast.FuncDecl) {
		has = has || f.Test && path.Dir(f.Name) == pkg && fn.Name.Name == test
	})
	return has
}
