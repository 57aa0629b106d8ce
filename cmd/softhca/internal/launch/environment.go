package launch

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/libraries"
)

// set gives a variable a value.
func set(env []string, name, value string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, name+"=") })
	return append(env, name+"="+value)
}

// forget removes the variables of some names whose values a run outside of this one chose.
func forget(env []string, names ...string) []string {
	chosen := strings.Fields(get(env, ChosenEnv))
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, value, _ := strings.Cut(e, "=")
		return name == ChosenEnv || slices.Contains(names, name) && slices.Contains(chosen, value)
	})
}

// get returns the value of a variable, "" if it has none.
func get(env []string, name string) string {
	for _, e := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

// prepend puts a value in front of the others of a variable. An empty one among
// them would be the working directory.
func prepend(env []string, name, value, separators string) []string {
	values := []string{value}
	for _, v := range strings.FieldsFunc(get(env, name), func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		if v != value {
			values = append(values, v)
		}
	}
	return set(env, name, strings.Join(values, ":"))
}

// overLibraries returns the environment of a program that runs over the libraries of a
// directory.
func overLibraries(env []string, dir string) ([]string, error) {
	if strings.ContainsAny(dir, ":; \t\n") {
		return nil, fmt.Errorf("the libraries are in %q, and a name with a blank, colon or semicolon cannot be in LD_PRELOAD: install them elsewhere: %w", dir, ib.EINVAL)
	}
	env = prepend(env, "LD_LIBRARY_PATH", dir, ":;")
	return prepend(env, "LD_PRELOAD", filepath.Join(dir, libraries.Preload), ": "), nil
}

// besideSanitizer returns the environment of a program that was compiled to check its
// memory accesses: its run-time library insists on being the first, though only those
// that replace malloc have to come after it.
func besideSanitizer(env []string) []string {
	const option = "verify_asan_link_order=0"
	if have := get(env, "ASAN_OPTIONS"); have != "" {
		return set(env, "ASAN_OPTIONS", have+":"+option)
	}
	return set(env, "ASAN_OPTIONS", option)
}
