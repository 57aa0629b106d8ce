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

// guidLocal marks a GUID that is locally assigned.
const guidLocal = 0x02 << 56

// GUID returns the GUID of the adapter on an address, with a slot of QPNs.
func (s *Secret) GUID(addr netip.Addr, slot uint8) uint64 {
	mac := hmac.New(sha256.New, s[:])
	_, _ = mac.Write(append(addr.WithZone("").Unmap().AsSlice(), slot)) // writing to a hash never fails
	return guidLocal | binary.BigEndian.Uint64(mac.Sum(nil))>>8
}

// nameMark makes the input of Name differ from that of GUID, which is an address of 4 or 16
// bytes and one more byte.
const nameMark = "softhca broker\x00"

// Name returns a name for the socket by which processes of the user find each other on an
// address: 32 hexadecimal digits, which another user cannot compute.
func (s *Secret) Name(addr netip.Addr) string {
	mac := hmac.New(sha256.New, s[:])
	_, _ = mac.Write(append([]byte(nameMark), addr.WithZone("").Unmap().AsSlice()...)) // writing to a hash never fails
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// OfUser returns the secret of the user who runs this process, from the file
// softhca/secret in the user's configuration directory. If it does not exist
// and cannot be created, or dir is "", kept is false: the secret lasts as long
// as the process, and other processes have different ones.
func OfUser(dir string) (s Secret, kept bool) {
	if dir != "" {
		if s, err := load(filepath.Join(dir, "softhca")); err == nil {
			return s, true
		}
	}
	return ofProcess(), false
}

// ofProcess is the secret of a process that cannot store one.
var ofProcess = sync.OnceValue(draw)

func draw() (s Secret) {
	// crypto/rand.Read never fails: it ends the program instead.
	_, _ = rand.Read(s[:])
	return s
}

// load returns the secret in a directory. If there is none, it creates one;
// processes that do so at the same time get the same one.
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

// read reads a secret. It rejects a file that another user owns, can read or can write:
// if HOME is another user's, as sudo may leave it, that user would know the secret.
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

// create writes a new secret unless one exists by then. Other processes see it
// complete or not at all; it uses a link, which unlike a rename never replaces
// an existing file.
func create(dir, name string) error {
	if err := makeDir(dir); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	f, err := os.CreateTemp(dir, "secret-") // readable by the user only
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
