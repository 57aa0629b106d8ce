package device

import (
	"net/netip"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/raw"
)

func openRaw(addrs []netip.Addr) (fabric.Port, error) { return raw.Open(raw.Config{Addrs: addrs}) }
