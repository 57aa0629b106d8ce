package page

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/internal/explain"
	"github.com/softhca/softhca/internal/printable"
)

// MaxPackets is the maximum number of packets on a page, and in its report.
const MaxPackets = 100_000

// MaxMessages is the maximum number of messages of each kind in the report of a page.
const MaxMessages = 5_000

// maxManagement is the maximum number of management datagrams whose fields are on a page; it
// has only the bytes of others. One has some 2 KB of fields.
const maxManagement = 5_000

// maxListed is the maximum number of findings on a page.
const maxListed = 1000

//go:embed page.html explored.html *.css *.js
var files embed.FS

// scripts are the files of the script, in their order.
var scripts = [...]string{"store.js", "format.js", "plot.js", "ladder.js", "details.js", "messages.js", "main.js"}

// view is the data of the template.
type view struct {
	Name          string
	Report        *explain.Report
	Findings      []*explain.Finding
	MoreFindings  int
	Part          string // which packets are shown, if not all
	Began         string
	Lasted        time.Duration
	Counted       string // packets and records
	Ladder        []explain.Rung
	LadderEnds    [2]explain.End
	Style         template.CSS
	Script        template.JS
	Data          string
	StylePolicy   string
	ScriptPolicy  string
	Status        []line
	Links         []link
	Conversations []conversation
}

// line is a line of the verdict.
type line struct{ Name, Text string }

// conversation is a line of the list of conversations.
type conversation struct {
	explain.Conversation
	Severity string // of its gravest finding
	Counted  string // packets and bytes
}

// Write writes the page of a report of the capture with a name. It blocks as w
// does.
func Write(w io.Writer, r *explain.Report, name string) error {
	c := collect(r)
	v := &view{Name: printable.Line(name, printable.Limit), Report: r, Findings: c.Findings, MoreFindings: len(r.Findings) - len(c.Findings), Part: strings.TrimSpace(part(r) + " " + c.undecoded()), Lasted: r.Duration.Round(time.Microsecond)}
	var err error
	if v.Data, err = c.encode(); err != nil {
		return err
	}
	style, err := files.ReadFile("style.css")
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	script := []byte("\"use strict\";\n")
	for _, name := range scripts {
		b, err := files.ReadFile(name)
		if err != nil {
			return fmt.Errorf("page: %w", err)
		}
		script = append(script, b...)
	}
	// Both are embedded files, without data of the capture.
	v.Style, v.Script = template.CSS(style), template.JS(script)
	v.StylePolicy, v.ScriptPolicy = policy(style), policy(script)
	v.fill(r)
	t, err := template.New("page.html").ParseFS(files, "page.html")
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	if err := t.Execute(w, v); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// policy returns the source expression of a content security policy for a script or a
// style.
func policy(b []byte) string {
	sum := sha256.Sum256(b)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// part describes which packets are shown, if not all.
func part(r *explain.Report) string {
	if len(r.Kept) == 0 || len(r.Kept) == r.Packets {
		return ""
	}
	first, last := r.Kept[0].Record, r.Kept[len(r.Kept)-1].Record
	return fmt.Sprintf("The packets of records %d to %d, %d of %d, are shown here; the verdict and the lists are about all.", first, last, len(r.Kept), r.Packets)
}

// docs is the address of the documentation. Users pass a page on without the repository,
// so its links lead to the project's site; the browser fetches nothing until a user follows
// one.
const docs = "https://github.com/softhca/softhca/blob/main/"

// link leads to a page of the documentation.
type link struct{ Page, URL string }

// readOn returns the pages of the documentation about a verdict.
func readOn(d *explain.Verdict) (links []link) {
	if d.Page == "" {
		return nil
	}
	for _, page := range append([]string{d.Page}, d.ErrorPages...) {
		links = append(links, link{page, docs + page})
	}
	return links
}

// fill fills in the parts of the view that are not data of the script.
func (v *view) fill(r *explain.Report) {
	if !r.Start.IsZero() {
		v.Began = r.Start.UTC().Format("2006-01-02 15:04:05.000000 UTC")
	}
	v.Counted = text.Count(r.Packets, "packet", "packets") + " in " + text.Count(r.Records, "record", "records")
	d := &r.Verdict
	for _, l := range []line{
		{"Where", d.Where}, {"Look at", d.Side}, {"Asked for", d.Fault}, {"Requester sees", d.Requester}, {"Responder sees", d.Responder}, {"Try", d.Try},
	} {
		if l.Text != "" {
			v.Status = append(v.Status, l)
		}
	}
	v.Links = readOn(d)
	for i := range r.Clocks {
		if s := r.Clocks[i].String(); s != "" {
			v.Status = append(v.Status, line{"Clocks", s})
		}
	}
	for _, c := range d.Caveats {
		v.Status = append(v.Status, line{"Not shown", c})
	}
	worst := map[int]explain.Severity{}
	found := map[int]bool{}
	for _, f := range r.Findings {
		worst[f.Conversation] = max(worst[f.Conversation], f.Severity)
		found[f.Conversation] = true
	}
	for i := range r.Conversations {
		c := conversation{Conversation: r.Conversations[i]}
		c.Counted = text.Count(c.Packets, "packet", "packets") + ", " + text.Count(c.Bytes, "byte", "bytes")
		if found[c.ID] {
			c.Severity = worst[c.ID].String()
		}
		v.Conversations = append(v.Conversations, c)
	}
	v.Ladder, v.LadderEnds = r.Ladder()
}
