package launch

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
)

const rocePort = fabric.RoCEPort

// maxTried is the maximum number of addresses tried.
const maxTried = 1000

func firstTried() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

// freeAddress returns the first free address of the loopback network, and a file that
// reserves the address until this process, and all processes that inherit the file,
// have closed it.
func freeAddress() (netip.Addr, *os.File, error) {
	a := firstTried()
	for range maxTried {
		reserved, err := reserve(a)
		if err == nil {
			if err = tryPort(a); err == nil {
				return a, reserved, nil
			}
			err = errors.Join(err, reserved.Close())
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return a, nil, err
		}
		if a = a.Next(); a.As4()[3] == 255 {
			a = a.Next().Next() // skip the last address of a network, and the first of the next one
		}
	}
	if sockets := socketsOn(netip.IPv4Unspecified()); len(sockets) > 0 {
		return a, nil, busy(firstTried())
	}
	return a, nil, fmt.Errorf("none of the %d addresses from %v on is free: end what runs on them, or name one by --addr: %w", maxTried, firstTried(), unix.EADDRINUSE)
}

// reserve returns a file that reserves an address, or EADDRINUSE if another process has
// reserved it. The file is a Unix socket with an abstract name: all users of this network
// namespace see it, and it disappears with the last process that has it open.
func reserve(a netip.Addr) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve %v: %w", a, err)
	}
	name := fmt.Sprintf("@softhca/%v", a)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		return nil, errors.Join(fmt.Errorf("reserve %v: %w", a, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

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
	return fmt.Errorf("UDP port %d of %v is taken by %s: an address belongs to one process at a time, and without --addr a free one is found: %w",
		rocePort, a, owner(a), unix.EADDRINUSE)
}
