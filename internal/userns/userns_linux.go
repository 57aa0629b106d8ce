package userns

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Ambiguous reports whether a user ID that the kernel reports may be that of users whom the
// user namespace of this process does not map: whether it is the overflow ID, and the namespace
// does not map all users.
func Ambiguous(uid int) bool {
	return uid == overflowUID() && !mapsAll()
}

// overflowUID returns the user ID of users that a namespace does not map.
func overflowUID() int {
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	uid, err2 := strconv.Atoi(string(bytes.TrimSpace(text)))
	if errors.Join(err, err2) != nil {
		return 65534 // the kernel's default
	}
	return uid
}

// mapsAll reports whether the user namespace of this process maps each user to itself.
func mapsAll() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && slices.Equal(strings.Fields(string(text)), []string{"0", "0", "4294967295"})
}
