package iface

import "golang.org/x/sys/unix"

// software reports whether an interface belongs to a purely virtual driver,
// which connects namespaces or programs.
func software(ifname string) bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, ifname)
	if err != nil {
		return false
	}
	switch unix.ByteSliceToString(info.Driver[:]) {
	case "veth", "tun":
		return true
	}
	return false
}
