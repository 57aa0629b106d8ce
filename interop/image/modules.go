//go:build linux

package image

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// moduleNames are the kernel modules that the guest loads. Modules that they
// depend on are added.
var moduleNames = []string{
	"virtio_pci", "virtio_net", "crc32_generic", "crc32_pclmul", "rdma_rxe", "ib_uverbs", "rdma_cm", "rdma_ucm",
}

// modules puts kernel modules into the tree, and the list that the agent loads
// them by, in which each module comes after its dependencies.
func (t *tree) modules(ctx context.Context, dir string) error {
	paths := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if base, _, ok := strings.Cut(filepath.Base(path), ".ko"); ok && err == nil && d.Type().IsRegular() {
			paths[moduleName(base)] = path
		}
		return err
	})
	if err != nil {
		return err
	}
	builtin, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return err
	}
	m := modules{ctx: ctx, tree: t, paths: paths, builtin: map[string]bool{}, done: map[string]bool{}}
	for _, line := range strings.Fields(string(builtin)) {
		m.builtin[moduleName(strings.TrimSuffix(filepath.Base(line), ".ko"))] = true
	}
	for _, name := range moduleNames {
		if err := m.add(name); err != nil {
			return err
		}
	}
	t.add("modules/order", 0o644, []byte(strings.Join(m.order, "\n")+"\n"))
	return nil
}

// moduleName returns a module's name as the kernel writes it.
func moduleName(base string) string { return strings.ReplaceAll(base, "-", "_") }

// modules collects modules and what they need.
type modules struct {
	ctx     context.Context
	tree    *tree
	paths   map[string]string
	builtin map[string]bool
	done    map[string]bool
	order   []string
}

// add adds a module after its dependencies. It skips optional modules that this
// kernel lacks: a newer kernel may have merged two into one.
func (m *modules) add(name string) error {
	if m.done[name] || m.builtin[name] {
		return nil
	}
	m.done[name] = true
	path, ok := m.paths[name]
	if !ok {
		if optional[name] {
			return nil
		}
		return fmt.Errorf("this kernel has no module %s", name)
	}
	image, err := uncompressed(m.ctx, path)
	if err != nil {
		return err
	}
	deps, err := dependencies(image)
	if err != nil {
		return fmt.Errorf("module %s: %w", name, err)
	}
	for _, d := range deps {
		if err := m.add(moduleName(d)); err != nil {
			return err
		}
	}
	m.tree.add("modules/"+name+".ko", 0o644, unsigned(image))
	m.order = append(m.order, name+".ko")
	return nil
}

// optional are modules without which a guest is merely slower, or which a
// kernel may have under another name.
var optional = map[string]bool{"crc32_generic": true, "crc32_pclmul": true}

// uncompressed returns a module's ELF image.
func uncompressed(ctx context.Context, path string) ([]byte, error) {
	tool, ok := map[string]string{".xz": "xz", ".zst": "zstd", ".gz": "gzip"}[filepath.Ext(path)]
	if !ok {
		return os.ReadFile(path)
	}
	image, err := exec.CommandContext(ctx, tool, "-dc", path).Output()
	if err != nil {
		return nil, fmt.Errorf("%s -dc %s: %w", tool, path, err)
	}
	return image, nil
}

// dependencies returns the names of the modules that an image needs.
func dependencies(image []byte) ([]string, error) {
	e, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	info := e.Section(".modinfo")
	if info == nil {
		return nil, fmt.Errorf("no section .modinfo")
	}
	data, err := info.Data()
	if err != nil {
		return nil, err
	}
	var names []string
	for field := range strings.SplitSeq(string(data), "\x00") {
		if list, ok := strings.CutPrefix(field, "depends="); ok {
			names = append(names, strings.FieldsFunc(list, func(r rune) bool { return r == ',' })...)
		}
	}
	return names, nil
}

const signatureMark = "~Module signature appended~\n"

// signatureInfo is the length of the structure between a module's signature and
// the magic string at its end; its last four bytes are the signature's length.
const signatureInfo = 12

// unsigned returns a module's image without its signature, whose verification
// is slow under emulation.
func unsigned(image []byte) []byte {
	body, ok := bytes.CutSuffix(image, []byte(signatureMark))
	if !ok || len(body) < signatureInfo {
		return image
	}
	n := int(binary.BigEndian.Uint32(body[len(body)-4:]))
	if n > len(body)-signatureInfo {
		return image
	}
	return body[:len(body)-signatureInfo-n]
}
