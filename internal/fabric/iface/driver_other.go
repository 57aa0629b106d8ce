//go:build !linux

package iface

// software knows no drivers here.
func software(string) bool { return false }
