// Package devices describes adapters as ibv_devinfo does: the port and its
// abilities, the tables and the limits.
//
// Reading order: devices.go is all of it.
//
// The package binds no address, so it does not disturb processes that have an adapter
// or open one.
package devices
