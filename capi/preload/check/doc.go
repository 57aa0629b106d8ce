// Package check has the tests of the preload library, whose sources in C stand one
// directory above: they need no Go, so they are in no package of Go.
//
// Reading order: check_test.go (how the library is built and programs are run on
// it), programs_test.go (programs of the system), calls_test.go (programs in C,
// of testdata).
//
// The package has only tests.
package check
