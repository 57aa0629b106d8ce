package cmtime

import (
	"fmt"
	"time"
)

// Options are what the user may choose.
type Options struct {
	Host        string // client: the server
	Bind        string // server: the address to bind to, "" for any; client: its address, "" by route
	Port        string
	Connections int
	Retries     int           // of the resolution of an address, and of the connections' packets
	Timeout     time.Duration // of a resolution
	Cycles      int           // within one process: lives of connections; 0: none
	Window      int           // within one process: connections that live at a time
	Events      bool          // within one process: both sides sleep until something happens, instead of one thread that polls for both
}

// maxConnections bounds what a client holds at a time.
const maxConnections = 1 << 15

// Check returns what is wrong with the options.
func (o *Options) Check() error {
	switch {
	case o.Connections < 1 || o.Connections > maxConnections:
		return fmt.Errorf("%d connections: want 1 to %d", o.Connections, maxConnections)
	case o.Retries < 0 || o.Retries > 7:
		return fmt.Errorf("%d retries: want 0 to 7", o.Retries)
	case o.Timeout <= 0:
		return fmt.Errorf("timeout %v: want more than nothing", o.Timeout)
	case o.Cycles < 0:
		return fmt.Errorf("%d cycles: want 0 or more", o.Cycles)
	case o.Window < 1 || o.Window > maxConnections:
		return fmt.Errorf("window %d: want 1 to %d connections at a time", o.Window, maxConnections)
	}
	return nil
}
