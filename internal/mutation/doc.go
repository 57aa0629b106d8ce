// Package mutation proves that the simulator, the scripts and the tests can
// fail. Its test breaks the engine on purpose, one seeded bug (mutant) at a
// time. A check of the simulator or a test must fail for each, and so must a
// script for every requirement that the mutant breaks.
//
// A mutant names a function or a table, a pattern of its syntax tree (package
// pattern) that occurs there once, and the replacement; without a replacement
// the pattern is deleted. The lists give the package once for all its mutants,
// and the package of a test only if it is another. The test applies the mutant
// to a copy that only the build sees (go build -overlay), so no source file
// changes and the engine contains no code for it.
//
//	go test -tags mutation ./internal/mutation         all of them
//	go test -tags mutation ./internal/mutation -share 3  an eighth of them
//	go test -tags mutation -v -run 'TestMutants/each/NAME' ./internal/mutation
//
// A mutant of the libraries in C, or of their engine, names a file, a function, variable or macro
// in it, text that occurs there once, and the replacement. The test compiles the changed file, links it
// with the objects of the other files (or builds the engine), and runs the tests of capi/test and
// capi/preload/check on the result until one fails.
//
//	go test -tags mutation -run TestMutantsInC ./internal/mutation
//	go test -tags mutation -v -run 'TestMutantsInC/each/NAME' ./internal/mutation
//
// TestSearch makes random small edits: operators, constants, deleted
// statements, swapped branches. It lists the edits that no test notices in
// docs/mutation-search.md (-rewrite). It takes long.
//
//	go test -tags mutation -v -timeout 3h -run TestSearch ./internal/mutation -search-count 100 -search-seed 1
//
// With -search-notes FILE it records which test noticed which edit. A second
// run with the same file tries only the edits that survived.
//
// TestInterop seeds bugs of a list of its own, which the interop runner must
// notice, and writes docs/interop-gate.md (-rewrite). It needs the runner's guests.
//
//	go test -tags mutation -v -timeout 60m -run TestInterop ./internal/mutation -interop
//
// With -v TestMutants prints which check noticed a mutant at which seed, and
// which scripts did. docs/mutations.md is the list (-rewrite writes it).
//
// Read mutation_test.go (the tests), mutant_test.go (one bug), source_test.go
// (where it is), graft_test.go (many bugs in one build), rig_test.go (builds
// and runs), then the lists: responder, requester, completer, state, queue, extended,
// shard, refusal, connection, churn, registration, stranger, recovery, path, port, altpath, xrc, broker, ucm, delay, full, secure, flood, challenge, window, ordered, near, socket, nasty, gocheck. The program that is
// built is in probe. For C read cmutation_test.go (the tests), csource_test.go (one bug, and where it
// is), crig_test.go (builds and runs), then the lists: cpost, cqueue, cobject, cdomain, cprocess, cnetlink. For the search read search_test.go and sites_test.go (the
// edits), for the interop runner interop_test.go.
package mutation
