// Package devices describes adapters as ibv_devinfo does: the port with what
// it can do, the tables and the limits.
//
// Reading order: devices.go is all of it.
//
// The package opens an adapter only to ask it, and closes it again.
package devices
