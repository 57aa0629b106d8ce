package launch

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/libraries"
)

// maxLibraries is the maximum number of libraries of a program that are examined.
const maxLibraries = 1000

// systemDirs are patterns of the loader's default directories in several distributions. The
// directories that this host's loader searches, and their order, are not known.
var systemDirs = []string{"/lib/*-linux-gnu", "/usr/lib/*-linux-gnu", "/lib64", "/usr/lib64", "/usr/local/lib", "/lib", "/usr/lib"}

// lack is a symbol of libibverbs that a file imports and our library does not export.
type lack struct {
	file, version, symbol string
	fatal                 bool // the loader does not start the program
}

func (l *lack) String() string {
	return fmt.Sprintf("%s needs %s (version %s) of %s, which softhca's library does not have: "+
		"the file is probably from a newer rdma-core; update softhca, or use the file of an older rdma-core",
		l.file, l.symbol, l.version, libraries.Verbs)
}

// closure finds the libraries that a program is linked with, directly and indirectly, as
// the loader does. It skips libraries that it does not find.
type closure struct {
	dirs  []string        // of LD_LIBRARY_PATH
	have  map[string]bool // versions, and "version symbol", that our library exports
	seen  map[string]bool // names of libraries
	lacks []lack
}

// lacking returns the symbols of libibverbs that a program and its libraries import and our
// library in dir does not export. path is the loader's LD_LIBRARY_PATH.
func lacking(program, dir, path string) ([]lack, error) {
	library := filepath.Join(dir, libraries.Verbs)
	e, err := elf.Open(library)
	if err != nil {
		return nil, fmt.Errorf("%s is no library; install it again: %w", library, err)
	}
	symbols, err := e.DynamicSymbols()
	if err = errors.Join(err, e.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", library, err)
	}
	c := &closure{dirs: filepath.SplitList(path), have: map[string]bool{}, seen: map[string]bool{libraries.Verbs: true}}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			c.have[s.Version], c.have[s.Version+" "+s.Name] = true, true
		}
	}
	c.visit(program, true)
	return c.lacks, nil
}

// visit examines a file and the libraries that it needs. It ignores files that are not
// valid ELF files: the loader reports them. certain says that the loader will load this
// file, and not another one of the same name.
func (c *closure) visit(file string, certain bool) {
	e, err := elf.Open(file)
	if err != nil {
		return
	}
	defer func() { _ = e.Close() }() // a reader
	needed, _ := e.ImportedLibraries()
	if slices.Contains(needed, libraries.Verbs) {
		c.compare(file, e, certain)
	}
	stated := c.search(file, e)
	for _, name := range needed {
		if c.seen[name] || len(c.seen) >= maxLibraries {
			continue
		}
		c.seen[name] = true
		if found := find(name, stated, e); found != "" {
			c.visit(found, certain)
		} else if found := find(name, guessed(), e); found != "" {
			c.visit(found, false)
		}
	}
}

// compare adds the symbols that a file imports and our library does not export.
func (c *closure) compare(file string, e *elf.File, certain bool) {
	symbols, _ := e.DynamicSymbols()
	now := bindsNow(e)
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF || s.Library != libraries.Verbs || elf.ST_BIND(s.Info) == elf.STB_WEAK || c.have[s.Version+" "+s.Name] {
			continue
		}
		c.lacks = append(c.lacks, lack{file: file, version: s.Version, symbol: s.Name, fatal: certain && (now || !c.have[s.Version])})
	}
}

// bindsNow reports whether the loader resolves all symbols of a file when it loads it.
func bindsNow(e *elf.File) bool {
	flags, _ := e.DynValue(elf.DT_FLAGS)
	flags1, _ := e.DynValue(elf.DT_FLAGS_1)
	is := func(values []uint64, bit uint64) bool {
		return slices.ContainsFunc(values, func(v uint64) bool { return v&bit != 0 })
	}
	return is(flags, uint64(elf.DF_BIND_NOW)) || is(flags1, uint64(elf.DF_1_NOW))
}

// search returns the directories that the environment and the file name for the file's
// libraries.
func (c *closure) search(file string, e *elf.File) []string {
	var own []string
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		paths, _ := e.DynString(tag)
		for _, p := range paths {
			for _, origin := range []string{"$ORIGIN", "${ORIGIN}"} {
				p = strings.ReplaceAll(p, origin, filepath.Dir(file))
			}
			own = append(own, filepath.SplitList(p)...)
		}
	}
	return slices.Concat(c.dirs, own)
}

// guessed returns the directories that the loader probably searches next.
func guessed() (dirs []string) {
	for _, pattern := range systemDirs {
		found, _ := filepath.Glob(pattern) // it fails only for a bad pattern
		dirs = append(dirs, found...)
	}
	return dirs
}

// find returns the file of a library for the architecture of a program, "" if there is none.
func find(name string, dirs []string, e *elf.File) string {
	if strings.Contains(name, "/") {
		return name
	}
	for _, dir := range dirs {
		file := filepath.Join(dir, name)
		if l, err := elf.Open(file); err == nil {
			fits := l.Machine == e.Machine && l.Class == e.Class
			_ = l.Close() // a reader
			if fits {
				return file
			}
		}
	}
	return ""
}

// fits warns of symbols of libibverbs that a program needs and our library lacks, once for
// each file. It returns an error if the loader would not start the program.
func (o *Options) fits(p *program, dir string, env []string) error {
	if p.file == "" {
		return nil
	}
	lacks, err := lacking(p.file, dir, get(env, "LD_LIBRARY_PATH"))
	if errors.Is(err, os.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	told := map[string]bool{}
	for i := range lacks {
		switch l := &lacks[i]; {
		case l.fatal:
			return fmt.Errorf("%v: %w", l, unix.ELIBBAD)
		case !told[l.file]:
			told[l.file] = true
			o.Say("softhca: %v", l)
		}
	}
	return nil
}
