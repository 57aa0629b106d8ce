package environ

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// atSecure is the entry AT_SECURE of the auxiliary vector.
const atSecure = 23

// Privileged reports whether the kernel started this process with more rights than
// those of the process that executed it. The answer never changes: not even a program
// that gives up its rights trusts its environment.
func Privileged() bool { return privileged() }

var privileged = sync.OnceValue(func() bool {
	vector, err := unix.Auxv()
	if err != nil { // a C library other than glibc may not pass it to a shared object
		return os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid()
	}
	return secureIn(vector)
})

// secureIn reports whether an auxiliary vector has AT_SECURE set.
func secureIn(vector [][2]uintptr) bool {
	for _, entry := range vector {
		if entry[0] == atSecure {
			return entry[1] != 0
		}
	}
	return false
}
