//go:build linux

package image

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/debian"
)

// Image is the kernel and initial file system of a guest.
type Image struct {
	Kernel   string            // file: an uncompressed ELF kernel
	Initrd   string            // file: a cpio archive
	Release  string            // of the kernel, as uname -r tells
	Packages map[string]string // versions of the relevant Debian packages, by name

	inUse *os.File // locked for as long as this process has the image
}

// Builder makes images, and caches the downloads.
type Builder struct {
	Dir   string               // cache directory
	Agent []byte               // program that is the guest's first process
	Say   func(string, ...any) // gets progress messages
}

// suites are where Debian has the kernels; "" is the suite of all the rest,
// with its updates.
var suites = map[string]string{"6.1": "", "6.12": "bookworm-backports"}

// Kernels are the versions of which there are images.
func Kernels() []string { return []string{"6.1", "6.12"} }

// recipe changes when the same inputs give another image.
const recipe = "1"

// Build returns the image with the kernel of that version. It takes it from the
// cache if its inputs have not changed. It waits for other processes that use
// the same cache.
func (b *Builder) Build(ctx context.Context, version string) (*Image, error) {
	suite, ok := suites[version]
	if !ok {
		return nil, fmt.Errorf("image: no kernel %s: want one of %s", version, strings.Join(Kernels(), ", "))
	}
	if err := os.MkdirAll(b.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	unlock, err := b.lock()
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	defer unlock()
	stamp := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join([]string{recipe, suite, strings.Join(programs, " "), strings.Join(binaries, " "),
		strings.Join(moduleNames, " "), string(b.Agent)}, "\n"))))
	dir := filepath.Join(b.Dir, "image-"+version+"-"+stamp[:12])
	img := cached(dir, stamp)
	if img == nil {
		if img, err = b.make(ctx, dir, version); err == nil {
			err = store(dir, manifest{stamp, img})
		}
		if err != nil {
			return nil, fmt.Errorf("image: %w", err)
		}
	}
	if img.inUse, err = use(dir, unix.LOCK_SH); err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	return img, b.tidy(dir, version)
}

// use locks an image against its removal (LOCK_SH), or others out of it
// (LOCK_EX), until the file is closed.
func use(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "in-use"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// tidy removes the images of that kernel that are neither in dir nor in use:
// runs with another version of the agent may boot them.
func (b *Builder) tidy(dir, version string) error {
	all, err := filepath.Glob(filepath.Join(b.Dir, "image-"+version+"-*"))
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	for _, old := range all {
		if old == dir {
			continue
		}
		f, err := use(old, unix.LOCK_EX)
		if err != nil {
			continue // another process uses it
		}
		if err := errors.Join(os.RemoveAll(old), f.Close()); err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	return nil
}

// store writes the manifest of an image, which makes it complete.
func store(dir string, m manifest) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestFile), text, 0o644)
}

// manifestFile is written last: an image without it is not complete.
const manifestFile = "image.json"

type manifest struct {
	Stamp string
	Image *Image
}

// cached returns the image in dir if it is complete and has that stamp.
func cached(dir, stamp string) *Image {
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	var m manifest
	if err != nil || json.Unmarshal(text, &m) != nil || m.Stamp != stamp || m.Image == nil {
		return nil
	}
	for _, file := range []string{m.Image.Kernel, m.Image.Initrd} {
		if _, err := os.Stat(file); err != nil {
			return nil
		}
	}
	return m.Image
}

// lock takes the cache for this process.
func (b *Builder) lock() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(b.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		b.Say("another run prepares its guests: waiting for it")
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	return func() { _ = f.Close() }, nil // closing unlocks
}

// make makes an image in dir.
func (b *Builder) make(ctx context.Context, dir, version string) (*Image, error) {
	suite := suites[version]
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	apt := bookworm(filepath.Join(b.Dir, "apt"), b.Say)
	if err := apt.Update(ctx); err != nil {
		return nil, err
	}
	img := &Image{Packages: map[string]string{}}
	userland, err := b.unpacked(ctx, apt, img.Packages)
	if err != nil {
		return nil, err
	}
	name, err := kernelPackage(ctx, apt, suite)
	if err != nil {
		return nil, err
	}
	deb, err := apt.Download(ctx, suite, name)
	if err != nil {
		return nil, err
	}
	kernel := filepath.Join(dir, "kernel")
	b.Say("unpacking %s", filepath.Base(deb))
	if err := debian.Unpack(ctx, []string{deb}, kernel); err != nil {
		return nil, err
	}
	if img.Packages["linux-image-amd64"], err = debian.Field(ctx, deb, "Version"); err != nil {
		return nil, err
	}
	img.Kernel = filepath.Join(dir, "vmlinux")
	if img.Release, err = bareKernel(ctx, kernel, img.Kernel); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(img.Release, version+".") {
		return nil, fmt.Errorf("the kernel of Debian's package is %s now, and no more %s: name another one with -kernel", img.Release, version)
	}
	t := newTree()
	if err := t.fill(userland, b.Agent); err != nil {
		return nil, err
	}
	if err := t.modules(ctx, filepath.Join(kernel, modulesDir(kernel), img.Release)); err != nil {
		return nil, err
	}
	img.Initrd = filepath.Join(dir, "initrd")
	if err := t.write(img.Initrd); err != nil {
		return nil, err
	}
	return img, os.RemoveAll(kernel)
}

// unpacked returns a directory with the files of the programs' packages and of
// all that they depend on, and notes their versions.
func (b *Builder) unpacked(ctx context.Context, apt *debian.Archive, versions map[string]string) (string, error) {
	debs, err := closure(ctx, apt)
	if err != nil {
		return "", err
	}
	for _, deb := range debs {
		name, err := debian.Field(ctx, deb, "Package")
		if err != nil {
			return "", err
		}
		if versions[name], err = debian.Field(ctx, deb, "Version"); err != nil {
			return "", err
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(debs, "\n")))
	dir := filepath.Join(b.Dir, fmt.Sprintf("userland-%x", sum[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	b.Say("unpacking %d packages", len(debs))
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return "", err
	}
	if err := debian.Unpack(ctx, debs, part); err != nil {
		return "", err
	}
	return dir, os.Rename(part, dir)
}

// modulesDir returns where a kernel's package has its modules.
func modulesDir(root string) string {
	if _, err := os.Stat(filepath.Join(root, "lib/modules")); errors.Is(err, fs.ErrNotExist) {
		return "usr/lib/modules"
	}
	return "lib/modules"
}
