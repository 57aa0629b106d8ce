//go:build !linux

package metrics

// pidNamespace returns 0: this system has no PID namespaces.
func pidNamespace() uint64 { return 0 }
