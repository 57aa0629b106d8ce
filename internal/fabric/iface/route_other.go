//go:build !linux

package iface

import "net/netip"

// RouteMTU reports false: it is implemented only for Linux.
func RouteMTU(src, dst netip.Addr) (mtu int, ok bool) { return 0, false }
