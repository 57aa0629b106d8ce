// Package fault makes things go wrong on demand: a language of rules, the
// machine that decides when a rule acts, and a port that does to packets what
// the rules say.
//
// Reading order: catalogue.go, params.go and words.go (the actions, their
// arguments and the selectors, as tables), rule.go, object.go, parse.go,
// value.go and syntax.go (the language), explain.go (the
// tables as prose), live.go (when a rule acts); then port.go, outbound.go, inbound.go, fate.go,
// edit.go and hold.go (what is done to packets). Rules that are about verbs
// are parsed and decided here and carried out by package device.
//
// The package reads no clock: time and the seed of its choices are given to
// it. A port without a rule that could act passes everything on as it is.
package fault
