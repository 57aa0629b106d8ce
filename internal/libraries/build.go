package libraries

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The files of a directory with libraries.
const (
	Verbs   = "libibverbs.so.1"
	Engine  = "softhca-engine.so"
	Preload = "libsofthca-preload.so"
)

// cFlags are what every C library is compiled with.
var cFlags = []string{
	"-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra", "-fvisibility=hidden", "-fno-strict-aliasing",
	// The functions that take the place of the C library's are not to be checked
	// variants of these.
	"-U_FORTIFY_SOURCE", "-Wl,-z,now", "-Wl,-z,nodelete",
}

// part is a library and its sources, by their directory in the tree.
type part struct {
	file, dir string
	header    string // that the sources need beside those of the C library
	args      []string
}

// parts are the libraries in C.
var parts = []part{
	{file: Verbs, dir: "capi/libibverbs", header: "infiniband/verbs.h", args: []string{"-Wl,--version-script=capi/libibverbs/libibverbs.map"}},
	{file: Preload, dir: "capi/preload"},
}

// enginePackage is the engine as a library.
const enginePackage = "./capi/engine"

// Build builds the libraries of a source tree into a directory, which it makes, and names
// each library to w before it builds it. It replaces files as a whole: programs that run keep
// those that they have. Errors say what to install if a compiler or a header is missing.
func Build(ctx context.Context, tree, dir string, w io.Writer) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := Check(ctx); err != nil {
		return err
	}
	sources, err := fingerprint(tree)
	if err != nil {
		return err
	}
	if err = os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	made, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	files := []string{Engine}
	for i := range parts {
		told(w, parts[i].file, "")
		if err := parts[i].build(ctx, tree, made); err != nil {
			return err
		}
		files = append(files, parts[i].file)
	}
	told(w, Engine, "; compiling it for the first time takes minutes")
	if err := buildEngine(ctx, tree, made); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, sourcesFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range files {
		if err := os.Rename(filepath.Join(made, f), filepath.Join(dir, f)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, sourcesFile), []byte(sources), 0o644)
}

// told names a library that is being built; a reader that is gone is no reason to stop.
func told(w io.Writer, file, more string) { _, _ = fmt.Fprintf(w, "building %s%s\n", file, more) }

// Check returns an error that says what to install if the compiler, Go or a header is missing.
func Check(ctx context.Context) error {
	cc, err := Compiler()
	if err != nil {
		return err
	}
	for i := range parts {
		if err := parts[i].check(ctx, cc); err != nil {
			return err
		}
	}
	_, err = goTool()
	return err
}

// check returns an error if the header that a library needs is missing.
func (p *part) check(ctx context.Context, cc string) error {
	if p.header == "" || hasHeader(ctx, cc, p.header) {
		return nil
	}
	return fmt.Errorf("building %s needs the header %s: install it by `apt install libibverbs-dev` (Debian, Ubuntu) or `dnf install rdma-core-devel` (Fedora, RHEL): %w",
		p.file, p.header, fs.ErrNotExist)
}

// goTool returns the go command.
func goTool() (string, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("building %s needs Go, from https://go.dev/dl or your distribution: %w", Engine, err)
	}
	return path, nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// BuildPreload builds the preload library alone into a directory that is there,
// with more flags for the compiler.
func BuildPreload(ctx context.Context, tree, dir string, flags ...string) error {
	p := parts[slices.IndexFunc(parts, func(p part) bool { return p.file == Preload })]
	p.args = append(slices.Clone(p.args), flags...)
	return p.build(ctx, tree, dir)
}

func (p *part) build(ctx context.Context, tree, dir string) error {
	cc, err := Compiler()
	if err != nil {
		return err
	}
	sources, err := fs.Glob(os.DirFS(tree), p.dir+"/*.c")
	if err != nil {
		return err
	}
	if len(sources) == 0 {
		return fmt.Errorf("no sources of %s in %s: %w", p.file, filepath.Join(tree, p.dir), fs.ErrNotExist)
	}
	args := append(slices.Clone(cFlags), "-Wl,-soname,"+p.file, "-o", filepath.Join(dir, p.file))
	args = append(append(args, p.args...), sources...)
	return run(ctx, tree, p.file, cc, append(args, "-ldl")...)
}

// ErrNoCompiler is the error of a system without a C compiler.
var ErrNoCompiler = errors.New("no C compiler: install one by `apt install gcc libc6-dev` (Debian, Ubuntu) or `dnf install gcc` (Fedora, RHEL), or name one by CC")

// Compiler returns the C compiler: that of the environment variable CC, gcc or cc.
func Compiler() (string, error) {
	for _, name := range []string{os.Getenv("CC"), "gcc", "cc"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoCompiler
}

// hasHeader asks the compiler whether it finds a header.
func hasHeader(ctx context.Context, cc, name string) bool {
	cmd := exec.CommandContext(ctx, cc, "-E", "-x", "c", "-o", os.DevNull, "-")
	cmd.Stdin = strings.NewReader("#include <" + name + ">\n")
	return cmd.Run() == nil
}

// NoVCS makes the go command build a program without asking which revision it is of: in a
// tree that belongs to another user git refuses to tell, and the build would fail.
const NoVCS = "-buildvcs=false"

// EngineFlags are what the engine is built with. Go's runtime interrupts threads that
// are in Go for long by SIGURG. One that comes late finds the thread back in the program,
// and poll and others like it fail with EINTR there, although the program catches no
// signals. So the runtime does without: what is long in the engine calls functions, at
// which it takes turns too.
func EngineFlags() []string {
	return []string{NoVCS, "-buildmode=c-shared", "-ldflags=-X=runtime.godebugDefault=asyncpreemptoff=1"}
}

func buildEngine(ctx context.Context, tree, dir string) error {
	gotool, err := goTool()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, Engine)
	args := append([]string{"build", "-o", file}, EngineFlags()...)
	if err := run(ctx, tree, Engine, gotool, append(args, enginePackage)...); err != nil {
		return err
	}
	// Go writes a header for C programs that are linked with it; nobody is.
	return os.Remove(strings.TrimSuffix(file, ".so") + ".h")
}

// maxOutput bounds what is shown of a tool's output. What comes first explains the rest.
const maxOutput = 4096

// run runs a tool in the tree. What it prints is part of the error.
func run(ctx context.Context, tree, what, tool string, args ...string) error {
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		err = cmp.Or(ctx.Err(), err)
		text := bytes.TrimSpace(out.Bytes())
		return fmt.Errorf("build %s: %s: %w\n%s", what, filepath.Base(tool), err, text[:min(len(text), maxOutput)])
	}
	return nil
}
