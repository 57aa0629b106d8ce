// Package launch runs an unmodified program over the softhca libraries: it finds the
// libraries and a free address, and creates the sysfs image of the adapter in /sys.
// Then the program replaces this process, so that it has the signals, the terminal and
// the exit code to itself, and its children inherit the adapter with the environment.
// To explain its packets, launch runs the program as a child instead, and passes
// signals on to it.
//
// Reading order: options.go, launch_linux.go (the steps), beside_linux.go (the program
// as a child), program_linux.go (which programs cannot work), symbols_linux.go
// (symbols of libibverbs that they would miss), address_linux.go and owner_linux.go
// (free addresses, and the owners of others), environment.go.
//
// The package does not use flags. It is for Linux.
package launch
