package sites

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// helperEnv makes this test program count in the directory that it names, and be killed.
const helperEnv = "SITES_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		l, err := Open(dir)
		if err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		l.Call("RegMR")
		fmt.Println(l.Name())
		_ = (&os.Process{Pid: os.Getpid()}).Kill()
		select {}
	}
	os.Exit(m.Run())
}

// child runs a process that counts one call and is killed, and returns its name.
func child(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+dir)
	out, _ := cmd.Output() // it is killed
	return strings.TrimSpace(string(out))
}

// TestCounts counts in this process, by two logs and several goroutines, and in three that are killed.
func TestCounts(t *testing.T) {
	dir := t.TempDir()
	one, err := Open(dir)
	must.Do(t, err)
	two, err := Open(dir)
	must.Do(t, err)
	program := programName(os.Args[0])
	if one.Name() != program+".1" || two.Name() != one.Name() {
		t.Errorf("the logs of the process are %s and %s", one.Name(), two.Name())
	}
	var wait sync.WaitGroup
	for _, l := range []*Log{one, two} {
		wait.Go(func() {
			for range 1000 {
				l.Call("RecvCQ") // there is none
				l.Call("PostSend")
				l.Request(ib.WRRDMARead, ib.WCRemAccessErr)
			}
			l.Acted()
		})
	}
	wait.Wait()
	calls, requests := fault.Calls(), fault.WorkRequests()
	one.Call(calls[0])
	one.Call(calls[len(calls)-1])
	all8 := fault.Statuses()
	one.Request(requests[0], all8[0])
	one.Request(requests[len(requests)-1], all8[len(all8)-1])
	one.Request(ib.WRRDMARead, ib.WCSuccess) // no failure
	countPackets(one, two)
	if a, b := one.Matches(3), two.Matches(3); a.Add(1) != 1 || b.Add(1) != 2 || one.Matches(wordCounters) != nil {
		t.Error("the logs of the process do not share what rules match")
	}
	for i := range 3 {
		if name := child(t, dir); name != fmt.Sprintf("%s.%d", program, i+2) {
			t.Errorf("process %d is called %q", i, name)
		}
	}
	all, err := Read(dir)
	must.Do(t, err)
	if len(all) != 4 {
		t.Fatalf("there are %d processes: %+v", len(all), all)
	}
	first := all[0]
	if first.Name != program+".1" || first.Acted != 2 ||
		!slices.Equal(first.Calls, []Count{{What: calls[0], N: 1}, {What: "PostSend", N: 2000}, {What: calls[len(calls)-1], N: 1}}) ||
		!slices.Equal(first.Requests, []Count{{requests[0].String(), all8[0], 1}, {"RDMA_READ", ib.WCRemAccessErr, 2000}, {requests[len(requests)-1].String(), all8[len(all8)-1], 1}}) {
		t.Errorf("this process did %+v", first)
	}
	checkPackets(t, &first)
	for i, p := range all[1:] {
		if p.Name != fmt.Sprintf("%s.%d", program, i+2) || p.Acted != 0 || !slices.Equal(p.Calls, []Count{{What: "RegMR", N: 1}}) || p.Requests != nil {
			t.Errorf("a process that was killed did %+v", p)
		}
	}
}

// countPackets counts packets, and notes timers, by two logs.
func countPackets(one, two *Log) {
	one.Packet(Sent, &fault.Subject{Readable: true, Op: roce.RCAcknowledge, Syndrome: roce.RNRNAK(1)})
	one.Packet(Received, &fault.Subject{Readable: true, Op: roce.UDSendOnly, Message: mad.AttrAPR})
	two.Packet(Received, &fault.Subject{Readable: true, Op: roce.UDSendOnly})
	one.Packet(Taken, &fault.Subject{Readable: true, Op: roce.RCSendFirst})
	one.Packet(Taken, &fault.Subject{Op: roce.RCSendFirst}) // it cannot be read
	one.Timers(time.Second, 3)
	two.Timers(time.Minute, 2)
}

// checkPackets checks what countPackets has counted.
func checkPackets(t *testing.T, first *Process) {
	t.Helper()
	for u, want := range [numUses][]Count{
		Sent:     {{What: "RC_ACKNOWLEDGE", N: 1}, {What: "NAK", N: 1}, {What: "RNR_NAK", N: 1}},
		Received: {{What: "UD_SEND_ONLY", N: 2}, {What: "APR", N: 1}},
		Taken:    {{What: "RC_SEND_FIRST", N: 1}},
	} {
		if !slices.Equal(first.Packets[u], want) {
			t.Errorf("use %d of packets: %+v, want %+v", u, first.Packets[u], want)
		}
	}
	if first.Timeout != time.Minute || first.Retries != 3 {
		t.Errorf("the longest timeout is %v, and there are at most %d retries", first.Timeout, first.Retries)
	}
}

// TestForeignFiles reads a directory in which a stranger has put other things, and opens logs there.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	program := programName(os.Args[0])
	secret := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(secret, make([]byte, 2*size), 0o600))
	for name, content := range map[string][]byte{
		program + ".1.sites": []byte("short"),
		program + ".2.sites": make([]byte, size), // without the magic number
		"x.3.sites":          slices.Repeat([]byte{0xff}, size),
		"bad name.sites":     make([]byte, size),
		"other":              make([]byte, size),
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	must.Do(t, os.Mkdir(filepath.Join(dir, "d.1.sites"), 0o700))
	l, err := Open(dir)
	must.Do(t, err)
	if l.Name() != program+".3" {
		t.Errorf("this process is %s", l.Name())
	}
	all, err := Read(dir)
	must.Do(t, err)
	if len(all) != 1 || all[0].Name != l.Name() {
		t.Errorf("the processes are %+v", all)
	}
	must.Do(t, os.Remove(filepath.Join(dir, program+".3.sites")))
	must.Do(t, os.Symlink(secret, filepath.Join(dir, program+".3.sites")))
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), program+".3.sites") {
		t.Errorf("a symbolic link: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "missing")); err == nil {
		t.Error("a directory that is missing has a log")
	}
}

// TestTooManyProcesses fills a directory with the files of as many processes as there can be.
func TestTooManyProcesses(t *testing.T) {
	dir, program := t.TempDir(), programName(os.Args[0])
	valid := binary.NativeEndian.AppendUint64(nil, magic)
	valid = append(valid, make([]byte, size-len(valid))...)
	for n := range maxSiblings {
		must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s.%d%s", program, n+1, suffix)), valid, 0o600))
	}
	if all, err := Read(dir); err != nil || len(all) != maxProcesses {
		t.Errorf("%d processes, %v", len(all), err)
	}
	if _, err := Open(dir); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("one more process: %v", err)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "x.1"+suffix), valid, 0o600))
	if _, err := Read(dir); !errors.Is(err, ib.ENOSPC) {
		t.Errorf("the files of one more process: %v", err)
	}
}

// TestNames checks names of programs, and the order of processes.
func TestNames(t *testing.T) {
	for path, want := range map[string]string{
		"/usr/bin/ib_write-bw": "ib_write-bw", "./a b/é;x": "__x", "": ".", strings.Repeat("p", 100): strings.Repeat("p", maxProgram),
	} {
		if got := programName(path); got != want {
			t.Errorf("%q is %q, want %q", path, got, want)
		}
	}
	names := []string{"b.1", "a.10", "a.9", "x", "a.b.1"}
	slices.SortFunc(names, compareNames)
	if !slices.Equal(names, []string{"a.9", "a.10", "a.b.1", "b.1", "x"}) {
		t.Errorf("the order is %v", names)
	}
}

// TestRoom checks that the file has room for all counters, and that nil counts nothing.
func TestRoom(t *testing.T) {
	if n := wordCounters + len(fault.Calls()) + len(fault.WorkRequests())*len(fault.Statuses()) + int(numUses)*len(fault.Classes()); n > words {
		t.Errorf("%d words do not fit into %d", n, words)
	}
	var none *Log
	none.Call("RegMR")
	none.Request(ib.WRSend, ib.WCRetryExcErr)
	none.Acted()
	none.Packet(Sent, &fault.Subject{Readable: true})
	none.Timers(time.Second, 1)
	if none.Name() != "" || none.Matches(0) != nil {
		t.Errorf("nil is %q", none.Name())
	}
}
