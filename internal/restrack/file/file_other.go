//go:build !linux

package file

import (
	"errors"
	"unsafe"

	"github.com/softhca/softhca/internal/restrack"
)

// File is the file of a table.
type File struct{}

// Create makes no table on this system.
func Create(uintptr) (*File, error) { return nil, ErrOff }

// Publish does nothing.
func (f *File) Publish(restrack.Process) error { return nil }

// Table returns the table, which does not exist on this system.
func (f *File) Table() *restrack.Table { return nil }

// Path returns the path of the file.
func (f *File) Path() string { return "" }

// Board returns the memory for the adapter's counters.
func (f *File) Board() unsafe.Pointer { return nil }

// Close does nothing.
func (f *File) Close() error { return nil }

// Remove does nothing.
func (f *File) Remove() error { return nil }

// Find finds no tables on this system.
func Find() ([]string, error) { return nil, nil }

// Reader reads a table.
type Reader struct{}

// Open opens no table on this system.
func Open(string, uintptr) (*Reader, error) { return nil, errors.ErrUnsupported }

// Path returns the path of the table.
func (r *Reader) Path() string { return "" }

// Bytes returns the size of the table.
func (r *Reader) Bytes() int { return 0 }

// Owner returns the user whose table it is.
func (r *Reader) Owner() int { return -1 }

// ReadOwned reads nothing.
func (r *Reader) ReadOwned(string, int64, uintptr) ([]byte, error) { return nil, errors.ErrUnsupported }

// Condition returns the state of the process.
func (r *Reader) Condition() Condition { return Dead }

// Read reads nothing.
func (r *Reader) Read(func(v *restrack.View, board []byte) error) error {
	return errors.ErrUnsupported
}

// Close does nothing.
func (r *Reader) Close() error { return nil }
