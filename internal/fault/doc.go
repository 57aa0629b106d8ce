// Package fault injects faults: a language of rules, the machine that decides
// when a rule acts, and a port that applies rules to packets.
//
// Reading order: catalogue.go, params.go and words.go (the actions, their arguments and the
// selectors, as tables), rule.go, object.go, parse.go, value.go and syntax.go (the language),
// explain.go (the tables as prose), live.go (when a rule acts); then port.go, outbound.go,
// inbound.go, verdict.go, edit.go and hold.go (faults on packets). Rules on verbs are parsed and
// decided here, and applied by package device.
//
// The package reads no clock: time and the seed of its choices are given to it.
// A port without a rule that could act passes everything unchanged.
package fault
