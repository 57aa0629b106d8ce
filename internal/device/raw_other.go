//go:build !linux

package device

import (
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
)

func openRaw([]netip.Addr) (fabric.Port, error) {
	return nil, fmt.Errorf("the raw transport needs Linux: %w", ib.EOPNOTSUPP)
}
