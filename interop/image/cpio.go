//go:build linux

package image

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// The bits of a file's kind in a cpio archive.
const (
	cpioRegular   = 0o100000
	cpioDirectory = 0o040000
	cpioLink      = 0o120000
	cpioDevice    = 0o020000
)

// write writes the tree as an archive that the kernel unpacks, uncompressed.
func (t *tree) write(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	return errors.Join(t.archive(w), w.Flush(), f.Close())
}

// archive writes the tree in the format "newc".
func (t *tree) archive(w io.Writer) error {
	a := archive{w: w}
	for _, path := range slices.Sorted(maps.Keys(t.files)) {
		f := t.files[path]
		kind := uint32(cpioRegular)
		switch f.mode.Type() {
		case fs.ModeDir:
			kind = cpioDirectory
		case fs.ModeSymlink:
			kind = cpioLink
		}
		a.entry(path, kind|uint32(f.mode.Perm()), [2]uint32{}, f.data)
	}
	// The kernel opens it for the first process, which could not create it in
	// time.
	a.entry("dev/console", cpioDevice|0o600, [2]uint32{5, 1}, nil)
	a.entry("TRAILER!!!", 0, [2]uint32{}, nil)
	return a.err
}

// archive writes entries until the first error.
type archive struct {
	w   io.Writer
	ino uint32
	err error
}

// entry writes one file. A device has a number of two parts.
func (a *archive) entry(path string, mode uint32, device [2]uint32, data []byte) {
	a.ino++
	links := uint32(1)
	header := []uint32{a.ino, mode, 0, 0, links, 0, uint32(len(data)), 0, 0, device[0], device[1], uint32(len(path) + 1), 0}
	var b strings.Builder
	b.WriteString("070701")
	for _, v := range header {
		fmt.Fprintf(&b, "%08X", v)
	}
	b.WriteString(path + "\x00")
	b.WriteString(padding(b.Len()))
	a.put([]byte(b.String()))
	a.put(data)
	a.put([]byte(padding(len(data))))
}

func (a *archive) put(b []byte) {
	if a.err == nil {
		_, a.err = a.w.Write(b)
	}
}

// padding returns the zeros that make a length a multiple of four.
func padding(n int) string { return "\x00\x00\x00"[:-n&3] }
