//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// pyTests is the directory in which Debian's package installs the unit tests.
const pyTests = "/usr/share/doc/rdma-core/tests"

// module matches the name of a file with unit tests, compressed or not. ofVendor matches the names of
// modules for the adapters of one vendor.
var (
	module   = regexp.MustCompile(`^(test_\w+)\.py(?:\.gz)?$`)
	ofVendor = regexp.MustCompile(`^test_(?:mlx5|efa|efadv)(?:_|$)`)
)

// modules returns the modules of tests in a directory that need no adapter of a particular vendor.
func modules(dir string) ([]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		if m := module.FindStringSubmatch(f.Name()); m != nil && !ofVendor.MatchString(m[1]) {
			names = append(names, "tests."+m[1])
		}
	}
	return names, nil
}

var (
	begun  = regexp.MustCompile(`^test_\w+ \(tests\.(\S+)\)`)
	result = regexp.MustCompile(`^(?:.* \.\.\. )?(ok|skipped .*|ERROR|FAIL)$`)
	ran    = regexp.MustCompile(`(?m)^Ran (\d+) tests`)
)

// refused lists tests that fail, and do not skip themselves, because the adapter lacks a feature,
// with that feature. They count as skipped.
var refused = map[string]string{
	"test_device.DMTest.test_multi_process_alloc_dm":            "an adapter that a process has opened is not its children's too",
	"test_rdmacm.CMTestCase.test_rdmacm_async_resolve_addrinfo": "rdma_resolve_addrinfo needs WRITE_CM_EVENT, a command that new kernels have for rdma_cm",
}

// pyverbs runs the unit tests and returns a line about them, and the tests that were skipped.
// It is an error if these are not the known ones, unless the list is to be written anew.
func (s *stand) pyverbs(ctx context.Context, write bool) (line string, skipped []string, err error) {
	dir := s.lib
	if err := unpack(pyTests, filepath.Join(dir, "tests")); err != nil {
		return "", nil, err
	}
	bin, err := noKernelDevices(dir)
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*limit)
	defer cancel()
	of, err := modules(pyTests)
	if err != nil {
		return "", nil, err
	}
	args := append([]string{"/usr/bin/python3", "tests/run_tests.py", "-v", "--dev", "softhca0", "--gid", "0"}, of...)
	var said bytes.Buffer
	cmd := s.launched(ctx, addrs4[:1], &said, args...)
	cmd.Dir = dir
	// Python's warnings would separate a test from its outcome in the output.
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "PYTHONWARNINGS=ignore")
	err = cmd.Run()
	out := said.String()
	if !ran.MatchString(out) {
		return "", nil, fmt.Errorf("%w: %s", errors.Join(err, ctx.Err()), last(out))
	}
	passed, skipped, failed := outcomes(out)
	line = fmt.Sprintf("%d passed, %d skipped, %d failed", passed, len(skipped), len(failed))
	if n := ran.FindStringSubmatch(out)[1]; n != strconv.Itoa(passed+len(skipped)+len(failed)) {
		return line, skipped, fmt.Errorf("%s, of %s: %w: %s", line, n, err, last(out))
	}
	if len(failed) > 0 {
		return line, skipped, fmt.Errorf("%s: %v", line, failed)
	}
	name := skipsFile(s.suite)
	known, err := skips.ReadFile(name)
	if changes := changed(strings.Split(strings.TrimSpace(string(known)), "\n"), skipped); !write && len(changes) > 0 {
		return line, skipped, errors.Join(err, fmt.Errorf("%s, but not those that capi/check/%s lists (-write writes it anew):\n%s", line, name, strings.Join(changes, "\n")))
	}
	return line, skipped, nil
}

// changed returns the lines that only one of two lists contains: lines of before with the prefix "- ",
// lines of after with the prefix "+ ".
func changed(before, after []string) (lines []string) {
	for _, l := range before {
		if !slices.Contains(after, l) {
			lines = append(lines, "- "+l)
		}
	}
	for _, l := range after {
		if !slices.Contains(before, l) {
			lines = append(lines, "+ "+l)
		}
	}
	return lines
}

// outcomes returns the number of tests that passed, the skipped tests with their reasons, and
// the failed tests. A test may print any number of lines before its outcome.
func outcomes(out string) (passed int, skipped, failed []string) {
	name := "" // of the test whose outcome follows
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if m := begun.FindStringSubmatch(line); m != nil {
			name = m[1]
		}
		m := result.FindStringSubmatch(line)
		if m == nil || name == "" {
			continue
		}
		what, why, _ := strings.Cut(m[1], " ")
		lacks, isRefused := refused[name]
		switch {
		case what == "ok":
			passed++
		case what == "skipped":
			skipped = append(skipped, name+"\t"+strings.Trim(why, `'"`))
		case isRefused:
			skipped = append(skipped, name+"\t"+lacks)
		default:
			failed = append(failed, name)
		}
		name = ""
	}
	slices.Sort(skipped)
	return passed, skipped, failed
}

// noKernelDevices writes a program named rdma, and returns its directory. The tests of newer
// suites ask iproute2's rdma for the network interface of an adapter, and fail if it fails,
// as it does on a kernel without InfiniBand. This one prints what it prints on a kernel
// without adapters; then the tests look into /sys, as those of older suites do.
func noKernelDevices(dir string) (string, error) {
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	return bin, os.WriteFile(filepath.Join(bin, "rdma"), []byte("#!/bin/sh\necho '[]'\n"), 0o755)
}

// unpack copies files, and decompresses those that are compressed.
func unpack(from, to string) error {
	names, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, e := range names {
		if err := unpackFile(filepath.Join(from, e.Name()), to); err != nil {
			return err
		}
	}
	return nil
}

func unpackFile(from, dir string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	var r io.Reader = f
	name, compressed := strings.CutSuffix(filepath.Base(from), ".gz")
	if compressed {
		if r, err = gzip.NewReader(f); err != nil {
			return err
		}
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), text, 0o644)
}
