// Package test has programs in C that use the library as any program does, and
// the tests that run them.
//
// Reading order: program (the scenarios in C), model (random calls that are compared with
// a model), cm (scenarios of librdmacm's calls), standin (an engine in C, for tools that
// cannot look into Go), build_test.go (how library, engine and programs are built),
// program_test.go, model_test.go, cm_test.go, errors_test.go (docs/errors-in-c.md),
// refusals_test.go (docs/refusals.md), symbols_test.go.
//
// The tests need a C compiler and the headers of libibverbs (on Debian
// libibverbs-dev), those of librdmacm's calls also librdmacm-dev; without them they
// are skipped, and say so.
package test
