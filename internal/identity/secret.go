package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
)

// Secret is the key of the GUIDs of one user's adapters.
type Secret [32]byte

// guidLocal marks a GUID that no registry gave.
const guidLocal = 0x02 << 56

// GUID returns the GUID of the adapter on an address, with a slot of QPNs.
func (s *Secret) GUID(addr netip.Addr, slot uint8) uint64 {
	mac := hmac.New(sha256.New, s[:])
	_, _ = mac.Write(append(addr.WithZone("").Unmap().AsSlice(), slot)) // a hash takes everything
	return guidLocal | binary.BigEndian.Uint64(mac.Sum(nil))>>8
}

// nameMark keeps the input of Name apart from that of GUID: an address has 4 or 16 bytes, and
// GUID appends one.
const nameMark = "softhca broker\x00"

// Name returns a name for the socket by which processes of the user find each other on an
// address: 32 hexadecimal digits, which another user cannot compute.
func (s *Secret) Name(addr netip.Addr) string {
	mac := hmac.New(sha256.New, s[:])
	_, _ = mac.Write(append([]byte(nameMark), addr.WithZone("").Unmap().AsSlice()...)) // a hash takes everything
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// OfUser returns the secret of the user who runs this process, from the file
// softhca/secret in the directory of the user's configuration. Where there is
// none and none can be made, or the directory is "", the secret is not kept: it
// lasts as long as the process, and another process has a different one.
func OfUser(dir string) (s Secret, kept bool) {
	if dir != "" {
		if s, err := load(filepath.Join(dir, "softhca")); err == nil {
			return s, true
		}
	}
	return ofProcess(), false
}

// ofProcess is the secret of a process that cannot keep one.
var ofProcess = sync.OnceValue(draw)

func draw() (s Secret) {
	// crypto/rand.Read never fails: it ends the program instead.
	_, _ = rand.Read(s[:])
	return s
}

// load returns the secret in a directory. If there is none, it makes one:
// processes that do so at once get the same.
func load(dir string) (s Secret, err error) {
	name := filepath.Join(dir, "secret")
	err = s.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = create(dir, name); err != nil {
			return s, err
		}
		err = s.read(name)
	}
	return s, err
}

// read reads a secret. A file that another user owns, can read or can write is none: with
// the HOME of another user, as sudo may leave it, that user would know the secret.
func (s *Secret) read(name string) error {
	f, err := os.OpenFile(name, os.O_RDONLY|noWait, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = private(info)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if info.Size() != int64(len(s)) {
		return fmt.Errorf("%s has %d bytes instead of %d", name, info.Size(), len(s))
	}
	_, err = io.ReadFull(f, s[:])
	return err
}

// errShared is the error of a file of the secret that is not this user's alone.
var errShared = errors.New("it is not a file of this user alone")

// create writes a new secret, unless there is one by then. Others see it whole
// or not at all, whatever happens meanwhile: a link, unlike a rename, never
// replaces one that is in use.
func create(dir, name string) error {
	if err := makeDir(dir); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	f, err := os.CreateTemp(dir, "secret-") // which only the user may read
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	s := draw()
	_, err = f.Write(s[:])
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Link(f.Name(), name); errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// makeDir creates a directory unless it exists. It returns an error if another user owns it, or
// the directory in which it would be created: root's secret there would lock that user out.
func makeDir(dir string) error {
	info, err := os.Stat(dir)
	for up := dir; errors.Is(err, fs.ErrNotExist) && up != filepath.Dir(up); {
		up = filepath.Dir(up)
		info, err = os.Stat(up)
	}
	if err == nil {
		err = trusted(info)
	}
	if err != nil {
		return err
	}
	if err = os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if info, err = os.Stat(dir); err != nil {
		return err
	}
	return owned(info)
}
