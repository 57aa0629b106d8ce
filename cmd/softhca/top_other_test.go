//go:build !linux

package main

import "testing"

// sampleTables skips the test: there are no tables on this system.
func sampleTables(t *testing.T) {
	t.Helper()
	// Other systems have no tables.
	t.Skip("tables of adapters exist on Linux only")
}
