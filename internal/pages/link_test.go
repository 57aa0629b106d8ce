package pages

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
)

// anchors returns what links within a page can name: its headings, as GitHub
// spells them.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		all[anchor(m[1])] = true
	}
	return all
}

// anchor returns what names a heading: lower case, without punctuation, with
// hyphens for blanks.
func anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			b.WriteRune('-')
		case r == '-', r == '_', r >= '0' && r <= '9', r >= 'a' && r <= 'z', r > 0x7f:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// dead returns the links of a page in a directory that lead nowhere.
func dead(dir, page string) (list []string) {
	own := anchors(page)
	for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		file, name, _ := strings.Cut(m[1], "#")
		if strings.Contains(file, "://") {
			continue
		}
		there := own
		if file != "" {
			b, err := os.ReadFile(filepath.Join(dir, file))
			if info, e := os.Stat(filepath.Join(dir, file)); err != nil && (e != nil || !info.IsDir()) {
				list = append(list, fmt.Sprintf("%s: %v", m[1], err))
				continue
			}
			there = anchors(string(b))
		}
		if name != "" && !there[name] {
			list = append(list, m[1]+": no such heading")
		}
	}
	return list
}

// TestLinks follows the links of every page of the project.
func TestLinks(t *testing.T) {
	pages := 0
	root := filepath.Dir(docs)
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != root && strings.HasPrefix(e.Name(), "."):
			return filepath.SkipDir
		case e.IsDir() || filepath.Ext(name) != ".md":
			return nil
		}
		pages++
		page, err := os.ReadFile(name)
		for _, d := range dead(filepath.Dir(name), string(page)) {
			t.Errorf("%s: %s", name, d)
		}
		return err
	})
	if err != nil || pages < 20 {
		t.Errorf("%d pages were read, %v", pages, err)
	}
}

// TestDeadLinks checks that dead links are reported.
func TestDeadLinks(t *testing.T) {
	const page = "# A b\n\n[1](#a-b) [2](#c) [3](nowhere.md) [4](faq.md#questions) [5](faq.md#answers) [6](https://example.org/x)\n```\n[7](gone.md)\n```\n"
	got := dead(docs, page)
	if len(got) != 3 || !strings.HasPrefix(got[0], "#c:") || !strings.HasPrefix(got[1], "nowhere.md:") || !strings.HasPrefix(got[2], "faq.md#answers:") {
		t.Errorf("%q", got)
	}
}
