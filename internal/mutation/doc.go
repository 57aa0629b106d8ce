// Package mutation proves that the simulator, the scripts and the tests can
// fail. Its test breaks the engine on purpose, one seeded bug at a time, and
// wants each noticed: by a check of the simulator, by a test, and, for every
// requirement that the bug breaks, by a script that covers it.
//
// A mutant names a function, or a table, and a pattern of its syntax tree
// (package pattern), which is found there once, and what stands there instead.
// It is applied to a copy that only the build sees (go build -overlay), so
// nothing of this is in the engine and no source file changes.
//
//	go test -tags mutation ./internal/mutation         all of them
//	go test -tags mutation -short ./internal/mutation  a sample
//	go test -tags mutation -v -run 'TestMutants/each/NAME' ./internal/mutation
//
// Of the libraries in C a mutant is one line: a file and a function, variable or macro in
// it, text that occurs there once, and what stands in its place. The changed file is
// compiled and linked with the objects of the others, and the tests of package capi/test
// and capi/preload/check run on the result until one fails.
//
//	go test -tags mutation -run TestMutantsInC ./internal/mutation
//	go test -tags mutation -v -run 'TestMutantsInC/each/NAME' ./internal/mutation
//
// TestSearch makes small edits that nobody chose: operators, constants,
// deleted statements, swapped branches, where a seed draws them. It lists those
// that nobody notices in docs/mutation-search.md (-rewrite). It is long.
//
//	go test -tags mutation -v -timeout 3h -run TestSearch ./internal/mutation -search-count 100 -search-seed 1
//
// With -search-notes FILE, who noticed is kept there: after a test for a
// survivor, the same command judges the survivors only.
//
// TestInterop has the interop runner notice bugs of a list of its own, in
// docs/interop-gate.md (-rewrite), which needs the runner's guests.
//
//	go test -tags mutation -v -timeout 60m -run TestInterop ./internal/mutation -interop
//
// With -v TestMutants prints which check noticed a mutant at which seed, and
// which scripts did. docs/mutations.md is the list (-rewrite writes it).
//
// Read mutation_test.go (the tests), mutant_test.go (one bug), source_test.go
// (where it is), graft_test.go (many bugs in one build), rig_test.go (builds
// and runs), then the lists: responder, requester, completer, state, queue,
// shard, refusal, connection, churn, stranger, recovery, path, altpath, broker. The program that is
// built is in probe. For C read cmutation_test.go (the tests), csource_test.go (one bug, and where it
// is), crig_test.go (builds and runs), then the lists: cpost, cqueue, cobject, cprocess. For the search read search_test.go and sites_test.go (the
// edits), for the interop runner interop_test.go.
package mutation
