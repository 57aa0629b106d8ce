package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/softhca/softhca/internal/fabric"
)

// bindError returns the error of a failed bind, with advice.
func bindError(a netip.Addr, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("udp: port %d on %v is in use: another adapter (or the rdma_rxe module) owns it; choose another address: %w",
			fabric.RoCEPort, a, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("udp: %v is not an address of this host, or not usable yet: %w", a, err)
	default:
		return fmt.Errorf("udp: bind %v: %w", netip.AddrPortFrom(a, fabric.RoCEPort), err)
	}
}
