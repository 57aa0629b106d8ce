// Package tabletest writes tables of adapters that do not exist, for tests of what reads tables.
// Only tests import it.
//
// Everything is in tabletest.go.
package tabletest
