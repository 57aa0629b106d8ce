// Package namespace runs programs and threads in Linux namespaces of their own: processes that are
// root in a new user namespace, without privilege outside, and further networks of the process.
//
// Reading order: launch_linux.go and alone_linux.go (processes), place_linux.go (networks), link_linux.go (interfaces),
// listen_linux.go (listeners).
package namespace
