// Package debian installs packages that this machine needs, and fetches and unpacks packages of
// Debian suites without installing anything: then apt-get works on lists and a cache in a
// directory of ours, as if the machine had no packages at all.
//
// Reading order: install.go (what this machine needs), archive.go (lists and packages),
// unpack.go (what is in a package).
//
// It needs Debian's apt and dpkg. Only installing needs root.
package debian
