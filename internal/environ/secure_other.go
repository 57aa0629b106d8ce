//go:build !linux

package environ

import "os"

// Privileged reports whether the process is a set-user-ID or set-group-ID program. On
// Windows, where there are none, both numbers are -1.
func Privileged() bool { return privileged }

// privileged is determined before the program can give up its rights.
var privileged = os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid()
