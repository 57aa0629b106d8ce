package file

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/environ/setid"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/restrack"
)

const boardSize = 64

// home makes a directory for the tables of a test, and returns it.
func home(t *testing.T) string {
	t.Helper()
	run := filepath.Join(t.TempDir(), "run")
	must.Do(t, os.Mkdir(run, 0o700))
	t.Setenv("XDG_RUNTIME_DIR", run)
	t.Setenv(DirVariable, "")
	return filepath.Join(run, "softhca", subdir)
}

// published makes a table with one queue pair.
func published(t *testing.T, qpn uint32) *File {
	t.Helper()
	f, err := Create(boardSize)
	must.Do(t, err)
	add(f, qpn)
	var p restrack.Process
	copy(p.Device[:], "softhca0")
	must.Do(t, f.Publish(p))
	return f
}

func add(f *File, qpn uint32) restrack.Handle[restrack.QPInfo, restrack.QPCounts] {
	return restrack.Add[restrack.QPInfo, restrack.QPCounts](f.Table(), restrack.KindQP, &restrack.QPInfo{Num: qpn})
}

// qpns returns the queue pairs that a table shows, and the first byte of the counters.
func qpns(t *testing.T, r *Reader) (all []uint32, first byte) {
	t.Helper()
	must.Do(t, r.Read(func(v *restrack.View, board []byte) error {
		for q := range v.QPs() {
			all = append(all, q.Info.Num)
		}
		first = board[0]
		if len(board) != boardSize {
			return fmt.Errorf("%d bytes of counters", len(board))
		}
		return nil
	}))
	return all, first
}

// found returns the tables that Find finds in a directory: root sees those of other tests too.
func found(t *testing.T, dir string) (paths []string) {
	t.Helper()
	all, err := Find()
	must.Do(t, err)
	for _, path := range all {
		if filepath.Dir(path) == dir {
			paths = append(paths, path)
		}
	}
	return paths
}

// TestTableOfARunningProcess finds the table of this process and reads it while it grows; Close
// removes it, and the writer's memory stays usable.
func TestTableOfARunningProcess(t *testing.T) {
	dir := home(t)
	f := published(t, 17)
	*(*byte)(f.Board()) = 99
	paths := found(t, dir)
	if want := filepath.Join(dir, fmt.Sprintf("softhca0-%d-0", os.Getpid())); !slices.Equal(paths, []string{want}) || f.Path() != want {
		t.Fatalf("found %v, want %s", paths, want)
	}
	if info, err := os.Stat(paths[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: want 0600", info.Mode(), err)
	}
	second := published(t, 18)
	if second.Path() == f.Path() {
		t.Error("two adapters of a process have one table")
	}
	must.Do(t, second.Close())

	r, err := Open(paths[0], boardSize)
	must.Do(t, err)
	defer r.Close()
	if all, first := qpns(t, r); !slices.Equal(all, []uint32{17}) || first != 99 || r.Condition() != Running || r.Owner() != os.Geteuid() {
		t.Errorf("queue pairs %v, counters %d, %v", all, first, r.Condition())
	}
	const many = 100 // take several extents
	var last restrack.Handle[restrack.QPInfo, restrack.QPCounts]
	for i := range many {
		last = add(f, uint32(100+i))
	}
	if all, _ := qpns(t, r); len(all) != 1+many {
		t.Errorf("%d queue pairs, want %d", len(all), 1+many)
	}
	must.Do(t, f.Close())
	if left := found(t, dir); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	last.Counts.SentBytes++ // memory of a closed adapter
	if *(*byte)(f.Board()) != 99 || last.Counts.SentBytes != 1 {
		t.Error("the counters have changed")
	}
	must.Do(t, f.Remove())
	if _, err := Open(f.Path(), boardSize); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("open a table that was removed: %v", err)
	}
}

// crashEnv makes the test binary create a table and wait to be killed.
const crashEnv = "SOFTHCA_TEST_CRASH"

// TestHelperCrashes is the other process of process.
func TestHelperCrashes(t *testing.T) {
	if os.Getenv(crashEnv) == "" {
		t.Skip("it is the other process of TestTableOfADeadProcess") // not a test by itself
	}
	f := published(t, 23)
	if os.Getenv(crashEnv) == "unlocked" {
		must.Do(t, f.file.Close()) // as a program that closes all descriptors
	}
	fmt.Println("ready")
	select {}
}

// process starts a process with a table. kill kills it.
func process(t *testing.T, how string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperCrashes$")
	cmd.Env = append(os.Environ(), crashEnv+"="+how)
	out, err := cmd.StdoutPipe()
	must.Do(t, errors.Join(err, cmd.Start()))
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return func() { _, _ = cmd.Process.Kill(), cmd.Wait() }
}

// TestTableOfADeadProcess reads the table of a process that was killed.
func TestTableOfADeadProcess(t *testing.T) {
	for _, how := range []string{"locked", "unlocked"} {
		dir := home(t)
		kill := process(t, how)
		paths := found(t, dir)
		if len(paths) != 1 {
			t.Fatalf("%s: tables are %v", how, paths)
		}
		r, err := Open(paths[0], boardSize)
		must.Do(t, err)
		if c := r.Condition(); c != Running {
			t.Errorf("%s: the process is %v", how, c)
		}
		kill()
		if all, _ := qpns(t, r); r.Condition() != Dead || !slices.Equal(all, []uint32{23}) {
			t.Errorf("%s: the process is %v, queue pairs %v", how, r.Condition(), all)
		}
		must.Do(t, r.Close())
	}
	if Running.String() != "running" || Dead.String() != "dead" {
		t.Error("conditions have other names")
	}
}

// TestDeadTablesAreBounded has Create remove what processes left that died: all but the newest, and
// old ones; never the table of a running process, or one in the making.
func TestDeadTablesAreBounded(t *testing.T) {
	dir := home(t)
	f := published(t, 1)
	defer f.Close()
	now := time.Now()
	table, err := os.ReadFile(f.Path())
	must.Do(t, err)
	clear(table[16:24]) // the PID: there is no process 0
	corpse := func(name string, age time.Duration) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, table, 0o600))
		must.Do(t, os.Chtimes(path, now.Add(-age), now.Add(-age)))
		return path
	}
	var keep, gone []string
	for i := range maxDead {
		keep = append(keep, corpse(fmt.Sprintf("dead-%d", i), time.Duration(i+1)*time.Minute))
	}
	gone = append(gone, corpse("dead-more", time.Hour), corpse(tempName+"stale", 2*time.Minute))
	keep = append(keep, corpse(tempName+"fresh", time.Second))
	foreign := filepath.Join(dir, "thesis.tex") // the directory has other files too
	must.Do(t, os.WriteFile(foreign, make([]byte, restrack.ExtentSize), 0o600))
	must.Do(t, os.Chtimes(foreign, now.Add(-10*keepDead), now.Add(-10*keepDead)))
	keep = append(keep, foreign)
	must.Do(t, published(t, 2).Close())
	for _, path := range append(keep, f.Path()) {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s is gone", path)
		}
	}
	for _, path := range gone {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
	must.Do(t, os.Chtimes(keep[0], now.Add(-keepDead-time.Hour), now.Add(-keepDead-time.Hour)))
	must.Do(t, published(t, 2).Close())
	if _, err := os.Stat(keep[0]); err == nil {
		t.Error("the table of a process that died long ago is left")
	}
}

// TestDescriptorIsGone has the program close all descriptors and get the table's number for a file of
// its own: neither the growth nor the end of the table touches that file.
func TestDescriptorIsGone(t *testing.T) {
	home(t)
	f := published(t, 1)
	path := filepath.Join(t.TempDir(), "mine")
	must.Do(t, os.WriteFile(path, []byte("my data"), 0o600))
	mine, err := os.OpenFile(path, os.O_RDWR, 0)
	must.Do(t, err)
	defer mine.Close()
	must.Do(t, unix.Dup3(int(mine.Fd()), int(f.file.Fd()), 0))
	if h := restrack.Add[restrack.PDInfo, restrack.PDCounts](f.Table(), restrack.KindPD, &restrack.PDInfo{}); h.Shared() {
		t.Error("the table has grown in a file of the program")
	}
	must.Do(t, f.Close())
	if _, err := unix.FcntlInt(f.file.Fd(), unix.F_GETFD, 0); err != nil {
		t.Error("the program's descriptor was closed")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "my data" {
		t.Errorf("the program's file is now %d bytes, %v", len(b), err)
	}
}

// TestFileIsGone closes a table whose file was removed before.
func TestFileIsGone(t *testing.T) {
	home(t)
	f := published(t, 1)
	must.Do(t, os.RemoveAll(filepath.Dir(f.Path())))
	must.Do(t, f.Close())
}

// TestHardLinks: a file with several names counts once.
func TestHardLinks(t *testing.T) {
	dir := home(t)
	f := published(t, 1)
	defer f.Close()
	for i := range 5 {
		must.Do(t, os.Link(f.Path(), filepath.Join(dir, fmt.Sprintf("again-%d", i))))
	}
	if paths := found(t, dir); len(paths) != 1 {
		t.Errorf("found %v, want one table", paths)
	}
}

// TestDirectories: tables can be off, or in a directory of the administrator, which others may read.
func TestDirectories(t *testing.T) {
	own := home(t)
	t.Setenv(DirVariable, Off)
	if _, err := Create(boardSize); !errors.Is(err, ErrOff) {
		t.Errorf("tables are off: %v", err)
	}
	shared := t.TempDir()
	t.Setenv(DirVariable, shared)
	f := published(t, 1)
	defer f.Close()
	info, err := os.Stat(f.Path())
	if must.Do(t, err); filepath.Dir(f.Path()) != shared || info.Mode().Perm() != 0o640 {
		t.Errorf("%s has mode %v", f.Path(), info.Mode())
	}
	if _, err := os.Stat(own); err == nil {
		t.Error("the user's own directory was created too")
	}
	t.Chdir(shared)
	t.Setenv(DirVariable, ".")
	if relative := published(t, 2); !filepath.IsAbs(relative.Path()) {
		t.Errorf("the path %s depends on the current directory", relative.Path())
	} else {
		must.Do(t, relative.Close())
	}
	t.Setenv(DirVariable, filepath.Join(shared, "missing"))
	if _, err := Create(boardSize); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a directory that does not exist: %v", err)
	}
}

// limitEnv makes the test binary limit the size of its files.
const limitEnv = "SOFTHCA_TEST_LIMIT"

// TestFileSizeLimit: a process that may not write long files has no table, or a short one, and gets
// no signal.
func TestFileSizeLimit(t *testing.T) {
	if os.Getenv(limitEnv) == "" { // in a process of its own, which writes no log of the test
		cmd := exec.Command(os.Args[0], "-test.run=^TestFileSizeLimit$")
		cmd.Env = append(os.Environ(), limitEnv+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	home(t)
	var old unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	defer func() { must.Do(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old)) }()
	signals := make(chan os.Signal, 10)
	signal.Notify(signals, unix.SIGXFSZ, unix.SIGWINCH)
	defer signal.Stop(signals)
	must.Do(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 2 * restrack.ExtentSize, Max: old.Max}))
	f, err := Create(boardSize)
	must.Do(t, err)
	if h := add(f, 1); !h.Shared() {
		t.Error("the first extent of rows is missing")
	}
	if h := restrack.Add[restrack.PDInfo, restrack.PDCounts](f.Table(), restrack.KindPD, &restrack.PDInfo{}); h.Shared() {
		t.Error("the table is longer than the limit of files")
	}
	must.Do(t, f.Close())
	must.Do(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 100, Max: old.Max}))
	if _, err := Create(boardSize); !errors.Is(err, unix.EFBIG) {
		t.Errorf("no room at all: %v", err)
	}
	must.Do(t, unix.Kill(os.Getpid(), unix.SIGWINCH)) // which Go reports after a SIGXFSZ
	if s := <-signals; s != unix.SIGWINCH {
		t.Errorf("the process got %v, which ends programs in C", s)
	}
}

// TestDamagedTables opens what its owner has damaged: the reader gets an error, never a signal.
func TestDamagedTables(t *testing.T) {
	dir := home(t)
	f := published(t, 1)
	defer f.Close()
	path := filepath.Join(dir, "copy")
	table, err := os.ReadFile(f.Path())
	must.Do(t, errors.Join(err, os.WriteFile(path, table, 0o600)))
	r, err := Open(path, boardSize)
	must.Do(t, err)
	defer r.Close()
	must.Do(t, os.Truncate(path, 0))
	if err := r.Read(func(*restrack.View, []byte) error { return nil }); !errors.Is(err, ErrChanged) {
		t.Errorf("a table without bytes: %v, want %v", err, ErrChanged)
	}
	if _, err := Open(path, boardSize); !errors.Is(err, restrack.ErrLayout) {
		t.Errorf("open a table without bytes: %v", err)
	}
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	must.Do(t, errors.Join(unix.Mkfifo(fifo, 0o600), os.Symlink(f.Path(), link)))
	for _, path := range []string{fifo, link, dir} {
		if _, err := Open(path, boardSize); !errors.Is(err, unix.EINVAL) {
			t.Errorf("open %s: %v, want %v", path, err, unix.EINVAL)
		}
	}
	defer func() {
		if recover() != "other" {
			t.Error("another panic was swallowed")
		}
	}()
	_ = r.guard(func() error { panic("other") }) // which ends the test
}

// TestOwnedFiles: a table cannot make a reader with more rights read a file of another user.
func TestOwnedFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		// Changing an owner is root's right.
		t.Skip("only root can make a file of another user")
	}
	dir := home(t)
	f := published(t, 1)
	defer f.Close()
	must.Do(t, os.Chown(f.Path(), setid.Stranger, -1))
	r, err := Open(f.Path(), boardSize)
	must.Do(t, err)
	defer r.Close()
	path := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(path, []byte("secret"), 0o600))
	if b, err := r.ReadOwned(path, 0, 6); !errors.Is(err, unix.EPERM) {
		t.Errorf("root's file is read for a table of another user: %q, %v", b, err)
	}
	must.Do(t, os.Chown(path, setid.Stranger, -1))
	if b, err := r.ReadOwned(path, 2, 4); err != nil || string(b) != "cret" {
		t.Errorf("%q, %v", b, err)
	}
	if r.Owner() != setid.Stranger {
		t.Errorf("owner %d", r.Owner())
	}
}
