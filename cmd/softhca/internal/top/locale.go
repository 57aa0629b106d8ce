package top

import "strings"

// UTF8 reports whether the terminal shows UTF-8, from the variables LC_ALL, LC_CTYPE and LANG: the
// first that is not empty names a locale. Without any, it does.
func UTF8(getenv func(string) string) bool {
	for _, name := range [...]string{"LC_ALL", "LC_CTYPE", "LANG"} {
		locale := getenv(name)
		if locale == "" {
			continue
		}
		locale, _, _ = strings.Cut(locale, "@")
		language, charset, named := strings.Cut(locale, ".")
		if !named {
			return language != "C" && language != "POSIX"
		}
		return strings.EqualFold(strings.ReplaceAll(charset, "-", ""), "utf8")
	}
	return true
}
