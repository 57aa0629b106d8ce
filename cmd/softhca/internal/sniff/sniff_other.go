//go:build !linux

package sniff

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sniffer captures the packets of an interface.
type Sniffer struct{}

// Open fails: captures need Linux.
func Open(name string) (*Sniffer, error) {
	return nil, fmt.Errorf("following interface %s needs Linux; elsewhere use tcpdump (tcpdump -i %s -U -w - udp port 4791 | softhca explain -): %w",
		name, name, errors.ErrUnsupported)
}

// Listen fails: there is no Sniffer.
func (*Sniffer) Listen(context.Context, func(ip []byte, at time.Time) error) error {
	return errors.ErrUnsupported
}

// Close fails: there is no Sniffer.
func (*Sniffer) Close() (missed int, err error) { return 0, errors.ErrUnsupported }
