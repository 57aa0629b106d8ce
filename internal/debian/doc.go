// Package debian fetches and unpacks packages of Debian suites without installing
// anything: apt-get works on lists and a cache in a directory of ours, as if the machine
// had no packages at all.
//
// Reading order: archive.go (lists and packages), unpack.go (what is in a package).
//
// It needs Debian's apt and dpkg. It does not need root.
package debian
