package pages

import (
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/explain"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/script"
	"github.com/softhca/softhca/mad"
)

var rewrite = flag.Bool("rewrite", false, "write the frames anew")

const docs = "../../docs"

// scriptsBegin is the text before the scripts that provoke the subject.
const scriptsBegin = "Scripts that provoke it: "

// subject is the subject of a section, and its text from tables.
type subject struct{ heading, frame string }

// framedPage is a page whose sections a table gives.
type framedPage struct {
	file     string
	subjects func(t *testing.T) []subject
	parts    []string // what each section must say, each in a paragraph that begins so
}

func framedPages() []framedPage {
	return []framedPage{
		{"statuses.md", statuses, []string{"**Meaning.**", "**Cause.**", "**On hardware.**"}},
		{"events.md", events, []string{"**Meaning.**", "**Cause.**", "**On hardware.**"}},
		{"rejects.md", rejects, []string{"**Meaning.**", "**Check.**"}},
	}
}

// TestFrames compares the sections of the pages with the tables: all are there, in
// order, none else, each with its frame and with prose.
func TestFrames(t *testing.T) {
	for _, p := range framedPages() {
		name := filepath.Join(docs, p.file)
		have, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		head, all := sections(string(have))
		want := p.subjects(t)
		for i, s := range want {
			if i >= len(all) || all[i].heading != s.heading {
				t.Fatalf("%s: want the section %q after %d others; headings are %q", p.file, s.heading, i, headings(all))
			}
			if all[i], err = all[i].framed(s.frame); err != nil {
				t.Fatalf("%s: %v", p.file, err)
			}
			for _, part := range p.parts {
				if !strings.Contains(all[i].body, "\n"+part+" ") {
					t.Errorf("%s: the section %s has no paragraph %s", p.file, s.heading, part)
				}
			}
			provoked(t, p.file, all[i])
		}
		if len(all) > len(want) {
			t.Errorf("%s: there is no %q", p.file, all[len(want)].heading)
		}
		text := join(head, all)
		if *rewrite {
			must.Do(t, os.WriteFile(name, []byte(text), 0o644))
		} else if text != string(have) {
			t.Errorf("%s: the frames are not what the tables say (-rewrite writes them)", p.file)
		}
	}
}

func headings(all []section) (list []string) {
	for _, s := range all {
		list = append(list, s.heading)
	}
	return list
}

// provoked checks that a section has a command, or the reason why it has none,
// and a picture if a script provokes the subject.
func provoked(t *testing.T, file string, s section) {
	if !strings.Contains(s.body, "```console\n") && !strings.Contains(s.body, "\n**Not here.** ") {
		t.Errorf("%s: %s has neither a command that provokes it nor a paragraph **Not here.**", file, s.heading)
	}
	if strings.Contains(s.body, "\n"+scriptsBegin) && !strings.Contains(s.body, "<!-- ladder ") {
		t.Errorf("%s: %s has no picture, and there are scripts", file, s.heading)
	}
}

// reports are those of all scripts.
func reports(t *testing.T) map[string]script.Report {
	all := map[string]script.Report{}
	for _, name := range script.Names() {
		text, err := script.Text(name)
		must.Do(t, err)
		if all[name], err = script.Run(name, text); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// words are how libibverbs names a value, from the source of our own.
func words(t *testing.T) map[string]string {
	b, err := os.ReadFile("../../capi/libibverbs/names.c")
	must.Do(t, err)
	all := map[string]string{}
	for part := range strings.SplitSeq(string(b), "[IBV_") {
		if name, rest, ok := strings.Cut(part, "] = \""); ok {
			all["IBV_"+name], _, _ = strings.Cut(rest, `"`)
		}
	}
	return all
}

// scriptList links the scripts that say that they provoke something.
func scriptList(all map[string]script.Report, provokes func(h script.Header) []string, name string) string {
	var list []string
	for _, s := range script.Names() {
		if slices.Contains(provokes(all[s].Header), name) {
			list = append(list, fmt.Sprintf("[%s](../internal/script/testdata/%s.qp)", s, s))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return scriptsBegin + strings.Join(list, ", ") + ".\n"
}

func statuses(t *testing.T) (list []subject) {
	all, named := reports(t), words(t)
	for s := ib.WCSuccess; !strings.Contains(s.String(), "("); s++ {
		var b strings.Builder
		fmt.Fprintf(&b, "`IBV_WC_%v`, %d: \"%s\".", s, s, named["IBV_WC_"+s.String()])
		var found []string
		for _, r := range explain.Rules() {
			if s != ib.WCSuccess && (slices.Contains(r.Requester, s) || slices.Contains(r.Responder, s)) {
				found = append(found, fmt.Sprintf("[%s](explain.md#%s)", r.Name, r.Name))
			}
		}
		if len(found) > 0 {
			fmt.Fprintf(&b, " What `softhca explain` finds: %s.", strings.Join(found, ", "))
		}
		b.WriteString("\n" + scriptList(all, func(h script.Header) []string { return h.Status }, s.String()))
		list = append(list, subject{s.String(), b.String()})
	}
	return list
}

func events(t *testing.T) (list []subject) {
	all, named := reports(t), words(t)
	rows := func(name string) string {
		return scriptList(all, func(h script.Header) []string { return h.Event }, name)
	}
	for v := ib.EventCQErr; !strings.Contains(v.String(), "("); v++ {
		list = append(list, subject{v.String(), fmt.Sprintf("`IBV_EVENT_%v`, %d: \"%s\".\n%s", v, v, named["IBV_EVENT_"+v.String()], rows(v.String()))})
	}
	for v := ib.EventCQErr; !strings.Contains(v.String(), "("); v++ {
		if e := v.OfEEC(); !strings.Contains(e.String(), "(") {
			list = append(list, subject{e.String(), fmt.Sprintf("`verbs.Event%s` in Go: %v for an EE context.\n%s", goName(e.String()), v, rows(e.String()))})
		}
	}
	return list
}

// goName is how package verbs names an event of EE contexts.
func goName(name string) string {
	return map[string]string{
		"EEC_FATAL": "EECFatal", "EEC_COMM_EST": "EECCommEst", "EEC_SQ_DRAINED": "EECSQDrained",
		"EEC_PATH_MIG": "EECPathMig", "EEC_PATH_MIG_ERR": "EECPathMigErr",
	}[name]
}

// rejects are the reasons, and how to see what a program makes of each: a REJ for
// want of a listener, which is 8, is made one of another reason on its way in.
func rejects(t *testing.T) (list []subject) {
	names := linuxRejects(t)
	for r := mad.RejNoQP; r <= mad.RejVendorOptionUnsupported; r++ {
		if strings.Contains(r.String(), "(") {
			continue
		}
		fault := fmt.Sprintf(" --fault 'corrupt byte=55 xor=%d reseal op=REJ'", r^mad.RejInvalidServiceID)
		if r == mad.RejInvalidServiceID {
			fault = ""
		}
		list = append(list, subject{
			fmt.Sprintf("%d %v", r, r),
			fmt.Sprintf("`%s`. How a program reports it:\n\n```console\n$ softhca run --addr 127.0.0.1 --log-level info -- rping -s -a 127.0.0.1 &\n…listening on 127.0.0.1:7174…\n"+
				"$ softhca run --addr 127.0.0.2%s -- rping -c -a 127.0.0.1 -p 7175\ncma event RDMA_CM_EVENT_REJECTED, error %d\n…\n(exit code 255)\n```\n", names[r], fault, r),
		})
	}
	return list
}

// linuxRejects are the names of the reasons in Linux.
func linuxRejects(t *testing.T) map[mad.RejReason]string {
	f, err := os.Open("testdata/linux-rejects.csv")
	must.Do(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	must.Do(t, err)
	names := map[mad.RejReason]string{}
	for _, row := range rows {
		var r mad.RejReason
		if _, err := fmt.Sscan(row[0], &r); err != nil {
			t.Fatal(err)
		}
		names[r] = "IB_CM_REJ_" + row[1]
	}
	return names
}
