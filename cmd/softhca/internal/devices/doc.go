// Package devices describes adapters as ibv_devinfo does: the port with what
// it can do, the tables and the limits.
//
// Reading order: devices.go is all of it.
//
// The package takes no address: who has an adapter, or is about to open it, is not
// disturbed.
package devices
