//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/softhca/softhca/internal/debian"
)

// suites are the suites of Debian that the tests compare the library with.
var suites = []string{"bookworm", "trixie", "sid"}

const page = "capi/test/testdata/symbols"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	wanted := suites
	if len(os.Args) > 1 {
		wanted = os.Args[1:]
	}
	for _, s := range wanted {
		if !slices.Contains(suites, s) {
			fmt.Fprintf(os.Stderr, "symbols: no suite %q: want some of %s\n", s, strings.Join(suites, ", "))
			os.Exit(2)
		}
		if err := record(ctx, s); err != nil {
			fmt.Fprintln(os.Stderr, "symbols:", err)
			os.Exit(1)
		}
	}
}

// record writes the file of a suite.
func record(ctx context.Context, suite string) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	a := &debian.Archive{
		Dir: filepath.Join(cache, "softhca", "debian", suite), Sources: debian.Main(suite),
		Say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, "symbols: "+suite+": "+format+"\n", args...) },
	}
	if err := a.Update(ctx); err != nil {
		return err
	}
	names, err := dependents(ctx, a)
	if err != nil {
		return err
	}
	debs, err := a.Fetch(ctx, "", append([]string{"download", library}, names...)...)
	if err != nil {
		return err
	}
	f := facts{exports: map[string]bool{}, imports: map[string][]string{}}
	versions := map[string]string{}
	for _, deb := range debs {
		name, err := debian.Field(ctx, deb, "Package")
		if err != nil {
			return err
		}
		if versions[name], err = debian.Field(ctx, deb, "Version"); err != nil {
			return err
		}
		if err := f.addPackage(ctx, name, deb); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return os.WriteFile(filepath.Join(page, suite+".txt"), []byte(f.text(suite, versions)), 0o644)
}

// library is the package with libibverbs.so.1.
const library = "libibverbs1"

var (
	dependent = regexp.MustCompile(`(?m)^ [ |](\S+)$`)
	// Packages without programs, and QEMU for other processors: large packages that import
	// the same symbols as QEMU for x86.
	passed = regexp.MustCompile(`-dev$|^qemu-system-(arm|mips|misc|ppc|riscv|s390x|sparc)$`)
)

// dependents returns the packages of a suite that depend on the library.
func dependents(ctx context.Context, a *debian.Archive) ([]string, error) {
	out, err := a.Query(ctx, "", "rdepends", library)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range dependent.FindAllSubmatch(out, -1) {
		if name := string(m[1]); !passed.MatchString(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no package depends on %s", library)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// text returns the content of a suite's file. It lists the versions only of packages that
// import a symbol.
func (f *facts) text(suite string, versions map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The symbols of libibverbs.so.1 in Debian's suite %s (amd64), as `go run ./internal/tools/symbols` writes them:\n", suite)
	b.WriteString("# packages and versions, what the library exports, what the packages import from it.\n")
	users := map[string]bool{library: true}
	for _, by := range f.imports {
		for _, name := range by {
			users[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		fmt.Fprintf(&b, "package %s %s\n", name, versions[name])
	}
	for _, symbol := range slices.Sorted(maps.Keys(f.exports)) {
		fmt.Fprintf(&b, "export %s\n", symbol)
	}
	for _, symbol := range slices.Sorted(maps.Keys(f.imports)) {
		fmt.Fprintf(&b, "import %s: %s\n", symbol, strings.Join(f.imports[symbol], " "))
	}
	return b.String()
}
