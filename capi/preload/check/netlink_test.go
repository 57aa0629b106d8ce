//go:build linux

package check

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/restrack/file"
)

// TestW1_NetlinkCalls makes each call on sockets that the library answers.
func TestW1_NetlinkCalls(t *testing.T) {
	addr := newAddr()
	b := newBenchAt(t, addr)
	fill(newTable(t, addr, 0), addr)
	if got := b.output(t, compile(t, "netlink"), "calls"); got != "0 failures\n" {
		t.Error(got)
	}
}

// TestW1_NetlinkFuzz sends malformed requests to a library that notices wrong accesses to memory.
func TestW1_NetlinkFuzz(t *testing.T) {
	runtime := sanitizer(t)
	addr := newAddr()
	b := newBenchAt(t, addr, "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer")
	fill(newTable(t, addr, 0), addr)
	program, s := compile(t, "netlink"), seed()
	for _, args := range [][]string{{program, "calls"}, {program, "fuzz", s, "2000"}} {
		cmd := b.command(t, runtime+" ", args...)
		cmd.Env = append(cmd.Env, "ASAN_OPTIONS=detect_leaks=0")
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "0 failures\n" {
			t.Errorf("%v, seed %s: %v\n%s", args[1:], s, err, out)
		}
	}
}

// The commands of the kernel that list queue pairs, and their counters.
const (
	resQP   = "10"
	statGet = "17"
	ofQPs   = "19"
)

// list returns the QPNs in a dump and the number of its parts.
func (b *bench) list(t *testing.T, program, op, res string) (qpns []string, parts int) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(b.output(t, program, "list", op, res)), "\n")
	last := len(lines) - 1
	if _, err := fmt.Sscanf(lines[last], "%d parts", &parts); err != nil {
		t.Fatalf("%q: %v", lines[last], err)
	}
	return lines[:last], parts
}

// TestW1_LongDump lists more queue pairs than the queue of a socket has room for, of two processes.
func TestW1_LongDump(t *testing.T) {
	addr := newAddr()
	b := newBenchAt(t, addr)
	const each = 1500
	var want []string
	for p := range 2 {
		f := newTable(t, addr, uint64(p))
		for i := range each {
			n := 100 + p*each + i
			addQP(f, restrack.QPInfo{Num: uint32(n), Type: uint8(ib.RC), State: uint8(ib.RTS)}, restrack.QPCounts{})
			want = append(want, strconv.Itoa(n))
		}
	}
	program := compile(t, "netlink")
	for op, res := range map[string]string{resQP: "0", statGet: ofQPs} {
		got, parts := b.list(t, program, op, res)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || parts < 60 {
			t.Errorf("command %s lists %d queue pairs in %d parts, want each of %d once", op, len(got), parts, len(want))
		}
	}
}

// TestW1_TornRows lists queue pairs whose rows change meanwhile. No answer mixes two identities.
func TestW1_TornRows(t *testing.T) {
	addr := newAddr()
	b := newBenchAt(t, addr)
	f := newTable(t, addr, 0)
	var rows []restrack.Handle[restrack.QPInfo, restrack.QPCounts]
	for range 60 {
		h := restrack.Add[restrack.QPInfo, restrack.QPCounts](f.Table(), restrack.KindQP, &restrack.QPInfo{Num: 1, Peer: 1, PD: 1, Type: uint8(ib.RC), State: uint8(ib.RTS)})
		rows = append(rows, h)
	}
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for n := uint32(0); ; n++ {
			select {
			case <-done:
				return
			default:
			}
			number := 1 + n%(1<<20)
			for i := range rows {
				rows[i].Set(&restrack.QPInfo{Num: number, Peer: number, PD: number, Type: uint8(ib.RC), State: uint8(ib.RTS)})
			}
		}
	})
	if got := b.output(t, compile(t, "netlink"), "torn", "2000"); got != "0 failures\n" {
		t.Error(got)
	}
	close(done)
	group.Wait()
}

// loose replaces a table by a copy that no process has mapped or locked, and returns its contents.
func loose(t *testing.T, f *file.File) (path string, contents []byte) {
	t.Helper()
	contents, err := os.ReadFile(f.Path())
	must.Do(t, errors.Join(err, f.Remove()))
	write(t, f.Path(), contents)
	t.Cleanup(func() { _ = os.RemoveAll(f.Path()) }) // the test may have removed it
	return f.Path(), contents
}

// spoil are ways to damage a table.
var spoil = map[string]func(t *testing.T, path string, b []byte){
	"empty":     func(t *testing.T, path string, _ []byte) { must.Do(t, os.Truncate(path, 0)) },
	"truncated": func(t *testing.T, path string, _ []byte) { must.Do(t, os.Truncate(path, restrack.ExtentSize+100)) },
	"no magic":  func(t *testing.T, path string, b []byte) { b[0]++; write(t, path, b) },
	"other layout": func(t *testing.T, path string, b []byte) {
		b[8]++
		write(t, path, b)
	},
	"a row in change": func(t *testing.T, path string, b []byte) {
		b[restrack.ExtentSize] |= 1
		write(t, path, b)
	},
	"a link": func(t *testing.T, path string, b []byte) {
		must.Do(t, os.Remove(path))
		write(t, path+"-", b)
		must.Do(t, errors.Join(os.Symlink(path+"-", path), os.Rename(path+"-", filepath.Join(filepath.Dir(path), ".hidden"))))
	},
	"no file": func(t *testing.T, path string, _ []byte) {
		must.Do(t, errors.Join(os.Remove(path), os.Mkdir(path, 0o700)))
	},
}

// write replaces what a file contains and stays the same file.
func write(t *testing.T, path string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	must.Do(t, err)
	_, err = f.WriteAt(b, 0)
	must.Do(t, errors.Join(err, f.Close()))
}

// TestW1_DamagedTables looks at tables that are none: nothing is listed.
func TestW1_DamagedTables(t *testing.T) {
	b := newBenchAt(t, newAddr())
	program := compile(t, "netlink")
	for name, f := range spoil {
		t.Run(name, func(t *testing.T) {
			table := newTable(t, b.addr, 0)
			addQP(table, restrack.QPInfo{Num: 100, Type: uint8(ib.RC), State: uint8(ib.RTS)}, restrack.QPCounts{})
			path, contents := loose(t, table)
			if got, _ := b.list(t, program, resQP, "0"); len(got) != 1 {
				t.Fatalf("before: %v", got)
			}
			f(t, path, contents)
			got, parts := b.list(t, program, resQP, "0")
			must.Do(t, os.RemoveAll(path))
			if len(got) != 0 || parts != 0 {
				t.Errorf("%v in %d parts", got, parts)
			}
		})
	}
}

// TestW1_HostileTables has rdma list tables with random words in them, behind the header of a true
// one: it ends, and the library reads no memory that it should not.
func TestW1_HostileTables(t *testing.T) {
	runtime := sanitizer(t)
	b := newBenchAt(t, newAddr(), "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer")
	n := rand.Uint64()
	random := rand.New(rand.NewPCG(n, 0))
	f := newTable(t, b.addr, 0)
	fill(f, b.addr)
	path, contents := loose(t, f)
	program := compile(t, "netlink")
	for i := range 12 {
		bad := bytes.Clone(contents)
		const extents = 440 // offset of the number of extents, before the kind of each
		binary.NativeEndian.PutUint64(bad[extents:], random.Uint64()>>random.IntN(60))
		for at := extents + 8; at < extents+8+4*20; at += 4 {
			binary.NativeEndian.PutUint32(bad[at:], random.Uint32N(9))
		}
		for at := restrack.ExtentSize; at < len(bad); at += 8 {
			if random.IntN(2) == 0 {
				binary.NativeEndian.PutUint64(bad[at:], random.Uint64()>>random.IntN(64))
			}
		}
		write(t, path, bad)
		cmd := b.command(t, runtime+" ", program, "fuzz", strconv.Itoa(i), "100")
		cmd.Env = append(cmd.Env, "ASAN_OPTIONS=detect_leaks=0")
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "0 failures\n" {
			t.Fatalf("seed %d, table %d: %v\n%s", n, i, err, out)
		}
	}
}

// TestW1_OtherTables checks which tables are those of a device: only those of a running process,
// for an adapter with its name and address.
func TestW1_OtherTables(t *testing.T) {
	b := newBenchAt(t, newAddr())
	other := newTable(t, newAddr(), 0)
	addQP(other, restrack.QPInfo{Num: 100, Type: uint8(ib.RC), State: uint8(ib.RTS)}, restrack.QPCounts{})
	dead := newTable(t, b.addr, 0)
	addQP(dead, restrack.QPInfo{Num: 101, Type: uint8(ib.RC), State: uint8(ib.RTS)}, restrack.QPCounts{})
	path, contents := loose(t, dead)
	const ticks = 48 // offset of the start of the process
	program := compile(t, "netlink")
	for _, c := range []struct {
		name  string
		spoil func(b []byte)
		want  int
	}{
		{"a process without a lock", func([]byte) {}, 1},
		{"another process with its number", func(b []byte) { b[ticks]++ }, 0},
		{"another PID namespace", func(b []byte) { b[32]++ }, 0},
		{"another network namespace", func(b []byte) { b[40]++ }, 0},
	} {
		copied := bytes.Clone(contents)
		c.spoil(copied)
		write(t, path, copied)
		if got, _ := b.list(t, program, resQP, "0"); len(got) != c.want {
			t.Errorf("%s: %v, want %d", c.name, got, c.want)
		}
		must.Do(t, os.Remove(path))
	}
}

// TestW1_NamedDirectory lists the tables of a named directory only, and otherwise those of the user, as
// internal/restrack/file finds them.
func TestW1_NamedDirectory(t *testing.T) {
	b := newBenchAt(t, newAddr())
	own := newTable(t, b.addr, 0)
	addQP(own, restrack.QPInfo{Num: 100, Type: uint8(ib.RC), State: uint8(ib.RTS)}, restrack.QPCounts{})
	named := newTable(t, b.addr, 1)
	addQP(named, restrack.QPInfo{Num: 200, Type: uint8(ib.RC), State: uint8(ib.RTS)}, restrack.QPCounts{})
	boardOf(own).Engine.SentPkts, boardOf(named).Engine.SentPkts = 1000, 2000
	path, contents := loose(t, named)
	must.Do(t, os.Remove(path))
	shared := t.TempDir()
	write(t, filepath.Join(shared, "table"), contents)
	program := compile(t, "netlink")
	for _, c := range []struct{ name, dir, qpn, sent string }{
		{"the named directory", shared, "200", "6711"},
		{"a named directory with another spelling", shared + "/.", "200", "6711"},
		{"the user's own directory by name", filepath.Dir(own.Path()), "100", "5711"},
		{"an empty name", "", "100", "5711"},
		{"no tables of this process", file.Off, "100", "5711"},
		{"a directory that does not exist", filepath.Join(shared, "missing"), "", "4711"},
	} {
		run := func(args ...string) string {
			cmd := b.command(t, "", args...)
			cmd.Env = append(cmd.Env, file.DirVariable+"="+c.dir)
			out, err := cmd.Output()
			must.Do(t, err)
			return string(out)
		}
		qpns, _, _ := strings.Cut(run(program, "list", resQP, "0"), "\n")
		if c.qpn == "" && qpns != "0 parts" || c.qpn != "" && qpns != c.qpn {
			t.Errorf("%s: the list is %q, want queue pair %s", c.name, qpns, c.qpn)
		}
		if got := run("cat", counts+"sent_pkts"); got != c.sent+"\n" {
			t.Errorf("%s: %q packets were sent, want %s", c.name, got, c.sent)
		}
	}
}
