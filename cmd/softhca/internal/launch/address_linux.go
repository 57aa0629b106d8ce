package launch

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/fabric"
)

const rocePort = fabric.RoCEPort

// freeAddress returns the first free address of the loopback network, and a file that
// reserves the address until this process, and all processes that inherit the file,
// have closed it. If that is an address beyond those that runs usually take, the notice
// says why.
func freeAddress() (free netip.Addr, file *os.File, notice string, err error) {
	tried, reserved := 0, 0
	for a := range device.Loopbacks() {
		f, err := reserve(a)
		switch {
		case err == nil:
			if err = tryPort(a); err == nil {
				if tried >= device.LoopbacksInOrder {
					notice = crowded(reserved, a)
				}
				return a, f, notice, nil
			}
			err = errors.Join(err, f.Close())
		case errors.Is(err, unix.EADDRINUSE):
			reserved++
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return a, nil, "", err
		}
		tried++
	}
	first := device.FirstLoopback()
	if sockets := socketsOn(netip.IPv4Unspecified()); len(sockets) > 0 {
		return first, nil, "", busy(first)
	}
	return first, nil, "", fmt.Errorf("none of %d addresses of 127.0.0.0/8 is free, %d are reserved by other runs, the first by %s: end those, or give an address by --addr: %w",
		tried, reserved, reserver(first), unix.EADDRINUSE)
}

// crowded returns the notice of an adapter on an unusual address.
func crowded(reserved int, a netip.Addr) string {
	first := device.FirstLoopback()
	return fmt.Sprintf("softhca: the adapter is on %v: none of the first %d loopback addresses is free; other runs have reserved %d addresses, the first one by %s",
		a, device.LoopbacksInOrder, reserved, reserver(first))
}

// reserve returns a file that reserves an address, or EADDRINUSE if another process has
// reserved it. The file is a Unix socket with an abstract name: all users of this network
// namespace see it, and it disappears with the last process that has it open.
func reserve(a netip.Addr) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve %v: %w", a, err)
	}
	name := reservedName(a)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		return nil, errors.Join(fmt.Errorf("reserve %v: %w", a, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

func reservedName(a netip.Addr) string { return fmt.Sprintf("@softhca/%v", a) }

// tryPort returns the error that opening an adapter on an address would return.
func tryPort(a netip.Addr) error {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, rocePort)))
	if err != nil {
		return err
	}
	return c.Close()
}

// busy returns the error of an address whose port is taken.
func busy(a netip.Addr) error {
	return fmt.Errorf("UDP port %d of %v is in use by %s: use another address, or leave --addr out to get a free one: %w",
		rocePort, a, owner(a), unix.EADDRINUSE)
}
