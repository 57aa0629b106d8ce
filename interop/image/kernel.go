//go:build linux

package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// compressions are the formats of a compressed kernel in a bzImage: the first
// bytes, and the program that decompresses it.
var compressions = []struct{ magic, tool string }{
	{"\xFD7zXZ\x00", "xz"}, {"\x28\xB5\x2F\xFD", "zstd"}, {"\x1F\x8B\x08", "gzip"},
}

// bareKernel cuts the ELF kernel out of the bzImage of an unpacked package and
// returns its release. A guest that boots it need not uncompress it, which
// under emulation takes longer than the rest of the boot.
func bareKernel(ctx context.Context, root, to string) (release string, err error) {
	found, err := filepath.Glob(filepath.Join(root, "boot/vmlinuz-*"))
	if err != nil || len(found) != 1 {
		return "", errors.Join(fmt.Errorf("%d kernels in the package, not 1", len(found)), err)
	}
	release = strings.TrimPrefix(filepath.Base(found[0]), "vmlinuz-")
	zipped, err := os.ReadFile(found[0])
	if err != nil {
		return "", err
	}
	for _, c := range compressions {
		for rest := zipped; ; {
			i := bytes.Index(rest, []byte(c.magic))
			if i < 0 {
				break
			}
			if elf := expand(ctx, c.tool, rest[i:]); elf != nil {
				return release, os.WriteFile(to, elf, 0o644)
			}
			rest = rest[i+1:]
		}
	}
	return "", fmt.Errorf("no compressed kernel found in %s (needs xz, zstd and gzip)", found[0])
}

// expand decompresses the ELF file at the start of b; it returns nil if there
// is none. The tool's complaint about the bytes after it does not matter.
func expand(ctx context.Context, tool string, b []byte) []byte {
	cmd := exec.CommandContext(ctx, tool, "-dc")
	cmd.Stdin = bytes.NewReader(b)
	out, _ := cmd.Output()
	if !bytes.HasPrefix(out, []byte("\x7FELF")) {
		return nil
	}
	return out
}
