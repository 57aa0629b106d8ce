package launch

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/libraries"
)

// traceTime is the maximum duration of a trace.
const traceTime = 5 * time.Second

// unresolved matches a line about a symbol of libibverbs that the loader did not find.
var unresolved = regexp.MustCompile(`(?m)^undefined symbol: (\S+), version (IBVERBS_\S+)\s+\((.+)\)$`)

// noVersion matches a line about a version of libibverbs that the loader did not find.
var noVersion = regexp.MustCompile(`(?m): version .IBVERBS_\S+ not found \(required by `)

// trace makes the loader resolve the symbols of the program and of its libraries, as
// ldd -r does, and returns what it reports. The program does not start.
func (p *program) trace(env ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), traceTime)
	defer cancel()
	var report strings.Builder
	cmd := exec.CommandContext(ctx, p.loader, p.file)
	cmd.Env, cmd.Stderr = append(env, "LD_TRACE_LOADED_OBJECTS=1", "LD_WARN=1"), &report
	_ = cmd.Run() // the same failure follows when the program starts
	return report.String()
}

// isTraceable reports whether a loader is that of glibc. Other loaders would start the
// program.
func isTraceable(loader string) bool {
	name := filepath.Base(loader)
	return strings.HasPrefix(name, "ld-linux") || name == "ld64.so.1" || name == "ld64.so.2"
}

// fits warns of symbols of libibverbs that a program needs and our library lacks, once for
// each file. It returns an error if the loader would not start the program.
func (o *Options) fits(p *program, env []string) error {
	if !isTraceable(p.loader) {
		return nil
	}
	var warnings []string
	seen := map[string]bool{}
	for _, m := range unresolved.FindAllStringSubmatch(p.trace(append(slices.Clone(env), "LD_BIND_NOW=1")...), -1) {
		if !seen[m[3]] {
			seen[m[3]] = true
			warnings = append(warnings, fmt.Sprintf("%s needs %s (version %s) of %s, which softhca's library does not have: "+
				"the file is probably from a newer rdma-core; update softhca, or use the file of an older rdma-core", m[3], m[1], m[2], libraries.Verbs))
		}
	}
	if len(warnings) == 0 {
		return nil
	}
	if fatal := p.trace(slices.Clone(env)...); unresolved.MatchString(fatal) || noVersion.MatchString(fatal) {
		return fmt.Errorf("%s: %w", strings.Join(warnings, "; "), unix.ELIBBAD)
	}
	for _, w := range warnings {
		o.Say("softhca: %s", w)
	}
	return nil
}
