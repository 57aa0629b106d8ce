// Package guest runs a virtual machine with Linux's own RDMA stack, and
// commands in it.
//
// Reading order: machine.go (QEMU), process.go (commands).
//
// The machine is emulated: no hardware support is needed, nor used. It lives
// in the network namespace of its caller and reaches nothing else.
package guest
