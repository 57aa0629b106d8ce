package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Numbers of the ethtool interface of Linux.
const (
	featureNames = 4  // the set of strings that names features
	nameSize     = 32 // bytes of a name
)

// singly switches an interface's offloads off, so that it sends and receives
// single packets: the kernel segments before the interface, and merges no
// arrivals. For TCP the old switches suffice; UDP segmentation has a feature
// flag.
func singly(name string) error {
	for _, command := range []uint32{unix.ETHTOOL_STSO, unix.ETHTOOL_SGSO, unix.ETHTOOL_SGRO} {
		off := request(command, 0)
		if err := ethtool(name, off); err != nil {
			return fmt.Errorf("switch offloads of %s off: %w", name, err)
		}
	}
	if err := withoutFeature(name, "tx-udp-segmentation"); err != nil {
		return fmt.Errorf("switch offloads of %s off: %w", name, err)
	}
	return nil
}

// withoutFeature switches a feature of an interface off.
func withoutFeature(ifname, feature string) error {
	count := request(unix.ETHTOOL_GSSET_INFO, 0, 1<<featureNames, 0, 0)
	if err := ethtool(ifname, count); err != nil {
		return err
	}
	n := binary.NativeEndian.Uint32(count[16:])
	const most = 1024 // Linux has less than a hundred
	if n > most {
		return fmt.Errorf("%d features", n)
	}
	names := append(request(unix.ETHTOOL_GSTRINGS, featureNames, n), make([]byte, n*nameSize)...)
	if err := ethtool(ifname, names); err != nil {
		return err
	}
	blocks := (n + 31) / 32
	set := append(request(unix.ETHTOOL_SFEATURES, blocks), make([]byte, 8*blocks)...)
	found := false
	for i := range n {
		have, _, _ := bytes.Cut(names[12+i*nameSize:][:nameSize], []byte{0})
		if string(have) != feature {
			continue
		}
		found = true
		binary.NativeEndian.PutUint32(set[8+i/32*8:], 1<<(i%32)) // valid, and not requested
	}
	if !found {
		return nil // a kernel without the feature has no such offload
	}
	return ethtool(ifname, set)
}

// request returns the words of a request, whose answer is written over it.
func request(words ...uint32) []byte {
	var b []byte
	for _, w := range words {
		b = binary.NativeEndian.AppendUint32(b, w)
	}
	return b
}

// ethtool makes an ethtool request to an interface.
func ethtool(ifname string, request []byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	req := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&request[0])}
	copy(req.name[:], ifname)
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req))); e != 0 {
		return e
	}
	return nil
}
