// Package launch runs a program that was not written for softhca over its
// libraries: it finds them, an address that is free, and makes the sysfs image of the
// adapter in /sys; then the program takes the place of this one. So signals, the
// terminal and the exit code are the program's own business, and what it starts
// inherits the adapter with the environment. Where its packets are explained the
// program is a child instead, to which signals are passed on.
//
// Reading order: options.go (what is asked for), launch_linux.go (the steps),
// beside_linux.go (the program as a child), program_linux.go (which programs cannot work),
// symbols_linux.go (symbols of libibverbs that they would miss), address_linux.go and
// owner_linux.go (addresses that are free, and who has those that are not),
// environment.go.
//
// The package knows nothing of flags. It is for Linux.
package launch
