// Package test has programs in C that use the library, and the tests that run them.
//
// Reading order: program (the scenarios in C), model (random calls that are compared with
// a model), cm (scenarios of librdmacm's calls), standin (an engine in C, for tools that
// cannot look into Go), recorder (an engine in C that records calls, for the scenarios
// recorded*.c of program), nasty (bugs that only a nasty adapter shows), limits (findings that
// meet the end of a process or a full table), loaded (a library that is loaded late), build_test.go (how
// library, engine and programs are built), program_test.go, model_test.go, cm_test.go,
// nasty_test.go (docs/nasty.md), errors_test.go (docs/errors-in-c.md), refusals_test.go
// (docs/refusals.md), symbols_test.go, order_test.go (the order of locks).
//
// The tests need a C compiler and the headers of libibverbs (Debian's libibverbs-dev); the
// scenarios of librdmacm also need librdmacm-dev. Without them the tests are skipped, with a
// message.
package test
