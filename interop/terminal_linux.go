package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// rawTerminal has a terminal pass every key on as it is pressed, until restore
// is called. It does nothing if the file is no terminal.
func rawTerminal(f *os.File) (restore func()) {
	fd := int(f.Fd())
	was, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return func() {}
	}
	raw := *was
	raw.Iflag &^= unix.ICRNL | unix.IXON | unix.ISTRIP | unix.INLCR | unix.IGNCR
	raw.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if unix.IoctlSetTermios(fd, unix.TCSETS, &raw) != nil {
		return func() {}
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, was) } // nothing else can restore it
}
