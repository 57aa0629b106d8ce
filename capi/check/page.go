//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const rootHead = `# Programs of Debian %[1]s on our libibverbs.so.1

The core of [the programs](programs.md), from the packages of Debian %[1]s in a root directory of their own, on libraries that
were built on Debian 12. Written by ` + "`go run ./capi/check -root %[1]s -write`" + `.

| package | program | outcome |
|---|---|---|
`

const head = `# Programs that run on our libibverbs.so.1

Unmodified, from Debian 12, in a network namespace without RDMA devices. Written by ` + "`go run ./capi/check -write`" + `.
The core of these programs also runs from the packages of [Debian 13 (trixie)](programs-trixie.md) and [sid](programs-sid.md).

A server and its client are two processes, with the entry 0 of the GID table: each pair runs between two addresses, and on one. So do
the ranks of MPI, which reach each other by UCX over our library only. A case fails if its server crashes or ends with an error, even
after its client has its result. ` + "`softhca run`" + ` starts the programs that need no partner, those of UCX, which read ` + "`/sys`" + `, and those that
connect by rdma_cm. SERVER, CLIENT and DIR stand for the addresses and a directory. DIR/meet is
[a program of ours](../capi/check/ucx/meet.c), as Debian has no program that uses UCX's listeners. So is
[DIR/pool](../capi/check/rpma/pool.c), as librpma comes without programs: that of Debian 12 posts a READ to flush and a WRITE for an atomic
write, that of [Debian 13](programs-trixie.md) FLUSH and ATOMIC WRITE. There is no package of libfabric's fabtests.

| package | program | outcome |
|---|---|---|
`

// row is a row of the table of cases.
var row = regexp.MustCompile("(?m)^\\| \\S+ \\| `(.*)` \\| .* \\|\n")

// page writes the page of a suite and the list of its skipped unit tests. Cases that did not run
// keep their rows.
func (c *checker) page(ctx context.Context) error {
	if !c.write {
		return nil
	}
	if c.unitSkips != nil {
		if err := os.WriteFile(filepath.Join("capi/check", skipsFile(c.suite)), []byte(strings.Join(c.unitSkips, "\n")+"\n"), 0o644); err != nil {
			return err
		}
	} else {
		text, err := skips.ReadFile(skipsFile(c.suite))
		if err != nil {
			return err
		}
		c.unitSkips = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	all := &checker{list: true, suite: c.suite}
	if err := all.all(ctx); err != nil {
		return err
	}
	old, err := os.ReadFile(pageOf(c.suite))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	text, err := pageText(c.suite, merged(all.names, c.rows, string(old)), c.unitSkips)
	if err != nil {
		return err
	}
	return os.WriteFile(pageOf(c.suite), []byte(text), 0o644)
}

// pageText returns the page of a suite with the given rows and skipped unit tests.
func pageText(suite, rows string, skipped []string) (string, error) {
	section, err := skipsSection(skipped)
	if err != nil {
		return "", err
	}
	text := head
	if suite != host {
		text = fmt.Sprintf(rootHead, suite)
	}
	return text + rows + section, nil
}

// merged returns the rows of the named cases: for each the new row, or else the row of the old page.
func merged(names []string, rows map[string]string, old string) string {
	before := make(map[string]string)
	for _, m := range rowsOf(old) {
		before[m[1]] = m[0]
	}
	var out strings.Builder
	for _, name := range names {
		if r, ran := rows[name]; ran {
			out.WriteString(r)
		} else {
			out.WriteString(before[name])
		}
	}
	return out.String()
}

// rowsOf returns the rows of the cases in a page, each with the name of its case.
func rowsOf(page string) [][]string {
	table, _, _ := strings.Cut(page, skipsTitle)
	return row.FindAllStringSubmatch(table, -1)
}

// pageOf returns the file of the page of a suite.
func pageOf(suite string) string {
	if suite == host {
		return "docs/programs.md"
	}
	return "docs/programs-" + suite + ".md"
}
