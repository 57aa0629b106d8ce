//go:build linux

package main

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
)

// skips contains, for each suite, the list of rdma-core's unit tests that skip themselves, with their
// messages, and the table of the reasons. All other tests must pass.
//
//go:embed skips
var skips embed.FS

// skipsFile returns the name of the list of a suite. The host is a Debian 12.
func skipsFile(suite string) string {
	if suite == host {
		suite = "bookworm"
	}
	return "skips/" + suite + ".txt"
}

// reasonsFile contains the reasons for all suites.
const reasonsFile = "skips/reasons.tsv"

// reason is a row of the table of reasons.
type reason struct {
	tests *regexp.Regexp
	lacks string // what lacks something: one of lacking
	why   string
}

// lacking lists what may lack something that a test needs.
var lacking = []string{"adapter", "machine", "kernel", "suite"}

// reasons returns the table.
func reasons() ([]reason, error) {
	text, err := skips.ReadFile(reasonsFile)
	if err != nil {
		return nil, err
	}
	var all []reason
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 3 {
			return nil, fmt.Errorf("%s: %d columns: %q", reasonsFile, len(f), line)
		}
		tests, err := regexp.Compile("^(?:" + f[0] + ")$")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", reasonsFile, err)
		}
		all = append(all, reason{tests, f[1], f[2]})
	}
	return all, nil
}

const skipsTitle = "\n## Unit tests that skip themselves\n"

const skipsHead = skipsTitle + `
All modules of rdma-core's unit tests run but ` + "`test_mlx5_*`, `test_efa_*` and `test_efadv`" + `, which test the interfaces of these two vendors'
adapters (mlx5dv, efadv). A test skips itself if the adapter, this machine, its kernel, or the suite's own set-up lacks what it needs.

| tests | skipped because of the | reason | they say |
|---|---|---|---|
`

// skipsSection returns the part of a page about the given skipped tests. Tests of the same class with
// the same reason share a row.
func skipsSection(skipped []string) (string, error) {
	table, err := reasons()
	if err != nil {
		return "", err
	}
	var rows []string
	tests := make(map[string][]string)
	for _, s := range skipped {
		name, says, _ := strings.Cut(s, "\t")
		at := strings.LastIndexByte(name, '.')
		row := fmt.Sprintf("| | | %s |", says)
		for _, r := range table {
			if r.tests.MatchString(name) {
				row = fmt.Sprintf("| %s | %s | %s |", r.lacks, r.why, says)
			}
		}
		row = name[:at] + "\t" + row
		if tests[row] == nil {
			rows = append(rows, row)
		}
		tests[row] = append(tests[row], "`"+name[at+1:]+"`")
	}
	out := skipsHead
	for _, row := range rows {
		class, rest, _ := strings.Cut(row, "\t")
		out += fmt.Sprintf("| `%s`: %s %s\n", class, strings.Join(tests[row], ", "), rest)
	}
	return out, nil
}
