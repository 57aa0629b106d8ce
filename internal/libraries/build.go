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

// The file names of the libraries.
const (
	Verbs   = "libibverbs.so.1"
	Engine  = "softhca-engine.so"
	Preload = "libsofthca-preload.so"
	Memory  = "libsofthca-memory.so" // only for programs that are checked
)

// Dialect is the compiler's option for the dialect of C in which every C source is written.
const Dialect = "-std=gnu11"

// cFlags are the compiler's options for every C library.
var cFlags = []string{
	Dialect, "-O2", "-g", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra", "-fvisibility=hidden", "-fno-strict-aliasing",
	// The headers must not replace a function that a library defines by a checked variant.
	"-U_FORTIFY_SOURCE", "-Wl,-z,now", "-Wl,-z,nodelete",
}

// part is a library in C.
type part struct {
	file   string
	dir    string   // of its sources, in the tree
	header string   // that the sources need in addition to those of the C library
	args   []string // more options of the compiler
}

// parts are the libraries in C.
var parts = []part{
	{file: Verbs, dir: "capi/libibverbs", header: "infiniband/verbs.h", args: []string{"-Wl,--version-script=capi/libibverbs/libibverbs.map"}},
	{file: Preload, dir: "capi/preload"},
	{file: Memory, dir: "capi/memory"},
}

// enginePackage is the Go package of the engine.
const enginePackage = "./capi/engine"

// Build builds the libraries of a source tree into a directory, which it creates. It writes
// the name of each library to w before it builds it. Running programs keep the old files,
// because Build replaces files and never changes them. If a compiler or a header is missing,
// the error says what to install.
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

// told writes the name of the next library to w. It ignores errors, since the build does not
// depend on the message.
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

// BuildOne builds only the library in C with a file name into an existing directory, with additional
// flags for the compiler.
func BuildOne(ctx context.Context, tree, dir, file string, flags ...string) error {
	p := parts[slices.IndexFunc(parts, func(p part) bool { return p.file == file })]
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

// ErrNoCompiler is returned on a system without a C compiler.
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

// NoVCS makes the go command build a program without asking git for the revision. In a tree
// of another user git refuses to answer, and the build would fail.
const NoVCS = "-buildvcs=false"

// EngineFlags returns the options of go build for the engine. They switch off asynchronous
// preemption. Go's runtime preempts a thread by SIGURG, which may arrive after the thread has
// left the engine: then poll and other system calls of the program fail with EINTR, although
// the program catches no signals. Long loops of the engine call functions, where the runtime
// can preempt them without a signal.
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
	// Go also writes a header, which no program includes.
	return os.Remove(strings.TrimSuffix(file, ".so") + ".h")
}

// maxOutput is how many bytes of a tool's output are shown: the first, which explain the
// rest.
const maxOutput = 4096

// run runs a tool in the tree. Its error includes the tool's output.
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
