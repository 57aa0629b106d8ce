//go:build !linux

package iface

import "net/netip"

// RouteMTU tells nothing here.
func RouteMTU(src, dst netip.Addr) (mtu int, ok bool) { return 0, false }
