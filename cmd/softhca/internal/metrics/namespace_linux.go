package metrics

import "golang.org/x/sys/unix"

// pidNamespace returns the inode number of the PID namespace of this process; 0 if it is not known.
func pidNamespace() uint64 {
	var s unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &s) != nil {
		return 0
	}
	return s.Ino
}
