// Package must ends tests that cannot go on after an error, and compares errors with those that
// tests want. Only tests import it.
package must
