package pages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
)

// peoplesPages are the pages whose commands are run.
var peoplesPages = []string{"statuses.md", "events.md", "rejects.md", "guide.md", "troubleshooting.md", "faq.md", "ci.md"}

// commandTimeout is how long a command may take, on a machine that does much else.
const commandTimeout = 2 * time.Minute

// stage is where blocks are run.
type stage struct {
	bin   string // a directory with the command
	noRun string // why softhca run cannot run anything, or ""
	slots chan int
}

// newStage builds the command and its libraries.
func newStage(t *testing.T) *stage {
	if runtime.GOOS != "linux" {
		t.Skip("the addresses that the pages use exist on Linux") // elsewhere there is one loopback address
	}
	dir := t.TempDir()
	s := &stage{bin: filepath.Join(dir, "bin"), slots: make(chan int, 4)}
	for i := range cap(s.slots) {
		s.slots <- i
	}
	out, err := exec.CommandContext(t.Context(), "go", "build", libraries.NoVCS, "-o", s.bin+"/", "../../cmd/softhca").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	err = libraries.Build(t.Context(), "../..", filepath.Join(dir, "lib", "softhca"), io.Discard)
	switch _, compiler := libraries.Compiler(); {
	case compiler != nil:
		s.noRun = compiler.Error()
	case err != nil && !hasHeader("infiniband/verbs.h"):
		s.noRun = "no headers of libibverbs: install libibverbs-dev (Debian, Ubuntu) or rdma-core-devel (Fedora)"
	case err != nil:
		t.Fatal(err)
	}
	return s
}

func hasHeader(name string) bool {
	cmd := exec.Command("gcc", "-E", "-x", "c", "-")
	cmd.Stdin = strings.NewReader("#include <" + name + ">\n")
	return cmd.Run() == nil
}

// TestCommands runs every command of the pages and checks its output.
func TestCommands(t *testing.T) {
	s := newStage(t)
	for _, file := range peoplesPages {
		page, err := os.ReadFile(filepath.Join(docs, file))
		if err != nil {
			t.Error(err)
			continue
		}
		all, err := consoles(file, string(page))
		if err != nil {
			t.Error(err)
		}
		for _, c := range all {
			t.Run(c.where, func(t *testing.T) {
				t.Parallel()
				s.lacks(t, c)
				slot := <-s.slots
				defer func() { s.slots <- slot }()
				s.run(t, c, slot)
			})
		}
	}
}

// foreign are programs of others that the pages use, and where they come from.
var foreign = map[string]string{
	"ibv_asyncwatch": "ibverbs-utils", "ibv_rc_pingpong": "ibverbs-utils", "ibv_devinfo": "ibverbs-utils", "rping": "rdmacm-utils",
	"gcc": "gcc", "python3": "python3", "timeout": "coreutils",
}

// lacks skips a block if the machine has not what it needs.
func (s *stage) lacks(t *testing.T, c console) {
	for _, cmd := range c.commands {
		words := strings.Fields(cmd.line)
		if strings.Contains(cmd.line, "softhca run ") && s.noRun != "" {
			t.Skipf("softhca run: %s", s.noRun) // no compiler, no libraries
		}
		for _, w := range words {
			if pkg := foreign[w]; pkg == "" {
				continue
			} else if _, err := exec.LookPath(w); err != nil {
				t.Skipf("no %s: install %s", w, pkg) // it is not ours
			}
		}
		if strings.Contains(cmd.line, "python3 examples/") && exec.Command("/usr/bin/python3", "-c", "import pyverbs.device").Run() != nil {
			t.Skip("python3 has no pyverbs: install python3-pyverbs") // it is not ours
		}
	}
}

var (
	localhost = regexp.MustCompile(`\b127\.0\.0\.(\d+)\b`)
	localFlag = regexp.MustCompile(` --local\b`)
)

// on returns text with addresses that only this block uses.
func on(text string, slot int) string {
	pid := os.Getpid()
	return localhost.ReplaceAllStringFunc(text, func(a string) string {
		var n int
		fmt.Sscanf(a, "127.0.0.%d", &n)
		return fmt.Sprintf("127.%d.%d.%d", 240+pid>>8&7, pid&255, slot*60+n)
	})
}

// run runs a block.
func (s *stage) run(t *testing.T, c console, slot int) {
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	dir := linked(t)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	for _, cmd := range c.commands {
		line := cmd.line
		if !strings.Contains(line, "--addr") {
			line = localFlag.ReplaceAllString(line, " --local --addr 127.0.0.1")
		}
		for i := range cmd.want {
			cmd.want[i] = on(cmd.want[i], slot)
		}
		sh := exec.CommandContext(ctx, "bash", "-c", "exec 2>&1; "+on(line, slot))
		sh.Dir = dir
		sh.Env = append(os.Environ(), "PATH="+s.bin+":/usr/bin:"+os.Getenv("PATH"), "SOFTHCA_ADDR="+on("127.0.0.40", slot))
		sh.WaitDelay = 10 * time.Second
		inGroup(sh)
		if cmd.background {
			s.background(t, ctx, cmd, sh, &others)
			continue
		}
		out, err := sh.CombinedOutput()
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			t.Fatalf("$ %s\n%v\n%s", line, err, out)
		}
		if code := sh.ProcessState.ExitCode(); code != cmd.exit {
			t.Errorf("$ %s\nexit code %d, want %d; it printed\n%s", line, code, cmd.exit, out)
		} else if m := cmd.missing(string(out)); m != "" {
			t.Errorf("$ %s\nprints no %q; it printed\n%s", line, m, out)
		}
	}
}

// linked returns a directory in which the tree can be read as if it were there, and
// files be made.
func linked(t *testing.T) string {
	dir := t.TempDir()
	tree, err := filepath.Abs("../..")
	must.Do(t, err)
	list, err := os.ReadDir(tree)
	must.Do(t, err)
	for _, e := range list {
		must.Do(t, os.Symlink(filepath.Join(tree, e.Name()), filepath.Join(dir, e.Name())))
	}
	return dir
}

// background starts a background command, and waits until it has printed the page's
// output. It ends with the context.
func (s *stage) background(t *testing.T, ctx context.Context, cmd command, sh *exec.Cmd, others *sync.WaitGroup) {
	out := &watched{news: make(chan struct{}, 1)}
	sh.Stdout, sh.Stderr = out, out
	must.Do(t, sh.Start())
	others.Go(func() { _ = sh.Wait() }) // it is killed when the block is done
	for m := cmd.missing(out.text()); m != ""; m = cmd.missing(out.text()) {
		select {
		case <-out.news:
		case <-ctx.Done():
			t.Fatalf("$ %s &\nprints no %q; it printed\n%s", cmd.line, m, out.text())
		}
	}
}

// watched is what a command printed so far.
type watched struct {
	mu   sync.Mutex // guards buf
	buf  bytes.Buffer
	news chan struct{}
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.news <- struct{}{}:
	default:
	}
	return w.buf.Write(b)
}

func (w *watched) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}
