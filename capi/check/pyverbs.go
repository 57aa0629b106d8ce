//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// skips has the tests of rdma-core that skip themselves on our adapter, with
// their reasons: what it does not have. Others must pass.
//
//go:embed skips.txt
var skips string

// The tests that are of no vendor.
var modules = []string{
	"addr", "atomic", "cq", "cq_events", "cqex", "device", "flow", "fork", "mr", "odp", "parent_domain", "pd", "qp", "qpex",
	"rdmacm", "relaxed_ordering", "rss_traffic", "shared_pd", "tag_matching",
}

// pyTests is where Debian's package has them.
const pyTests = "/usr/share/doc/rdma-core/tests"

var (
	result = regexp.MustCompile(`(?m)^(test_\w+) \(tests\.(\S+)\)(?:\n[^\n]*?)? \.\.\. (?:[^\n]*\n)?(ok|skipped '[^\n]*'|ERROR|FAIL)$`)
	ran    = regexp.MustCompile(`(?m)^Ran \d+ tests`)
)

// pyverbs runs the unit tests and returns a line about them, and the tests that
// were skipped.
func (s *stand) pyverbs(ctx context.Context, dir string) (line string, skipped []string, err error) {
	if err := unpack(pyTests, filepath.Join(dir, "tests")); err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*limit)
	defer cancel()
	args := []string{"/usr/bin/python3", "tests/run_tests.py", "-v", "--dev", "softhca0", "--gid", "0"}
	for _, m := range modules {
		args = append(args, "tests.test_"+m)
	}
	var said bytes.Buffer
	cmd := s.launched(ctx, addrs4[:1], &said, args...)
	cmd.Dir = dir
	err = cmd.Run()
	out := said.String()
	if !ran.MatchString(out) {
		return "", nil, fmt.Errorf("%w: %s", errors.Join(err, ctx.Err()), last(out))
	}
	counts := map[string]int{}
	var failed []string
	for _, m := range result.FindAllStringSubmatch(out, -1) {
		what, why, _ := strings.Cut(m[3], " ")
		switch counts[what]++; what {
		case "skipped":
			skipped = append(skipped, fmt.Sprintf("%s\t%s", m[2], strings.Trim(why, "'")))
		case "ok":
		default:
			failed = append(failed, m[2])
		}
	}
	line = fmt.Sprintf("%d passed, %d skipped, %d failed", counts["ok"], counts["skipped"], len(failed))
	slices.Sort(skipped)
	if err != nil || len(failed) > 0 {
		return line, skipped, fmt.Errorf("%s: %v", line, failed)
	}
	if known := strings.Split(strings.TrimSpace(skips), "\n"); !slices.Equal(known, skipped) {
		return line, skipped, fmt.Errorf("%s, but not those that capi/check/skips.txt lists: -write writes it anew", line)
	}
	return line, skipped, nil
}

// unpack copies files, those that are compressed without that.
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
