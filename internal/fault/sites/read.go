package sites

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fault"
)

// Process is what a process of a run did.
type Process struct {
	Name     string // of the program, a dot, and a number
	Acted    uint64 // actions of rules
	Calls    []Count
	Requests []Count // that can fail
	Packets  [numUses][]Count
	Timeout  time.Duration // the longest timeout of its queue pairs
	Retries  int           // the most retries of its queue pairs
}

// Count is how often a process did something.
type Count struct {
	What   string      // a verb, the opcode of a work request, or a class of packets
	Status ib.WCStatus // with which the work request can fail
	N      uint64
}

// maxProcesses bounds the files that Read reads.
const maxProcesses = 4096

// Read returns the processes of a run, in the order of their names. It skips files that are no logs.
func Read(dir string) ([]Process, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || !e.Type().IsRegular() || !fault.ValidName(name) {
			continue
		}
		if len(all) == maxProcesses {
			return nil, fmt.Errorf("%s: more than %d processes: %w", dir, maxProcesses, ib.ENOSPC)
		}
		p, err := readOne(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if p != nil {
			p.Name = name
			all = append(all, *p)
		}
	}
	slices.SortFunc(all, func(a, b Process) int { return compareNames(a.Name, b.Name) })
	return all, nil
}

// compareNames orders processes by program, then by number.
func compareNames(a, b string) int {
	i, j := strings.LastIndexByte(a, '.'), strings.LastIndexByte(b, '.')
	if a[:max(i, 0)] == b[:max(j, 0)] {
		m, _ := strconv.Atoi(a[i+1:]) // 0 for a stranger's name
		n, _ := strconv.Atoi(b[j+1:])
		return m - n
	}
	return strings.Compare(a, b)
}

// readOne reads a file; nil if it is no log, or not yet.
func readOne(path string) (*Process, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, nil
		}
		return nil, err
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[i*8:]) }
	if word(wordMagic) != magic {
		return nil, nil
	}
	p := &Process{Acted: word(wordActed), Timeout: time.Duration(word(wordTimeout)), Retries: int(word(wordRetries))}
	at := wordCounters
	for _, name := range fault.Calls() {
		p.Calls = count(p.Calls, Count{What: name, N: word(at)})
		at++
	}
	for _, o := range fault.WorkRequests() {
		for _, s := range fault.Statuses() {
			p.Requests = count(p.Requests, Count{o.String(), s, word(at)})
			at++
		}
	}
	for u := range p.Packets {
		for _, name := range fault.Classes() {
			p.Packets[u] = count(p.Packets[u], Count{What: name, N: word(at)})
			at++
		}
	}
	return p, nil
}

// count adds what was done at least once.
func count(to []Count, c Count) []Count {
	if c.N == 0 {
		return to
	}
	return append(to, c)
}
