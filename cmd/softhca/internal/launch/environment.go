package launch

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/libraries"
)

// set sets a variable.
func set(env []string, name, value string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, name+"=") })
	return append(env, name+"="+value)
}

// forget removes those of the named variables whose values an outer run chose.
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

// prepend puts a value in front of the others of a variable. It adds no empty value,
// which would mean the working directory.
func prepend(env []string, name, value, separators string) []string {
	values := []string{value}
	for _, v := range strings.FieldsFunc(get(env, name), func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		if v != value {
			values = append(values, v)
		}
	}
	return set(env, name, strings.Join(values, ":"))
}

// overLibraries returns the environment of a program that uses the libraries in a
// directory.
func overLibraries(env []string, dir string) ([]string, error) {
	if strings.ContainsAny(dir, ":; \t\n") {
		return nil, fmt.Errorf("the libraries are in %q, and a name with a blank, colon or semicolon cannot be in LD_PRELOAD: install them elsewhere: %w", dir, ib.EINVAL)
	}
	env = prepend(env, "LD_LIBRARY_PATH", dir, ":;")
	return prepend(env, "LD_PRELOAD", filepath.Join(dir, libraries.Preload), ": "), nil
}

// watchingMemory returns the environment of a program with the library that reports freed memory to the
// checker, if the program is checked.
func watchingMemory(env []string, dir string) []string {
	if get(env, CheckEnv) == "" {
		return env
	}
	return prepend(env, "LD_PRELOAD", filepath.Join(dir, libraries.Memory), ": ")
}

// besideSanitizer returns the environment of a program compiled with the address
// sanitizer. The sanitizer's library insists on being the first one, although only
// libraries that replace malloc must come after it.
func besideSanitizer(env []string) []string {
	const option = "verify_asan_link_order=0"
	if have := get(env, "ASAN_OPTIONS"); have != "" {
		return set(env, "ASAN_OPTIONS", have+":"+option)
	}
	return set(env, "ASAN_OPTIONS", option)
}
