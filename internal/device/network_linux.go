package device

import (
	"errors"
	"fmt"

	"github.com/softhca/softhca/internal/fabric/fdmark"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// networkChanges returns a function that blocks until interfaces or addresses
// of the host may have changed, and returns false after closer was called.
func networkChanges() (next func() bool, closer func(), err error) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return nil, nil, fmt.Errorf("subscribe to changes of the network: %w", err)
	}
	fdmark.Mark(s.GetFd())
	next = func() bool {
		_, _, err := s.Receive()
		return err == nil || errors.Is(err, unix.ENOBUFS) // the socket lost some changes
	}
	return next, s.Close, nil
}
