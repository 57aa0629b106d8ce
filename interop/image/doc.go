// Package image makes the images that guests of the interop runner boot: a kernel and an
// initial file system with Linux's RDMA programs, from Debian packages that
// internal/debian fetches into a directory of our own. Nothing is installed on the host.
//
// Reading order: image.go (the steps), packages.go (the packages), tree.go (files and
// their libraries), modules.go (kernel modules), kernel.go (the bare kernel),
// cpio.go (the archive).
//
// The package starts no guest.
package image
