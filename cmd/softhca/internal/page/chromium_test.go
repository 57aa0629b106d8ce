package page

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
)

var shots = flag.String("shots", "", "keep the screenshots in this `directory`")

// browsers are the names of programs that speak Chromium's protocol.
var browsers = [...]string{"chromium", "chromium-browser", "google-chrome", "chrome", "chrome-headless-shell"}

// chromium is a browser without a screen, driven over a pipe: nothing listens.
type chromium struct {
	t       *testing.T
	in      io.Writer
	out     *bufio.Reader
	id      int
	session string
	errors  []string // that scripts did not catch, and what the page's policy forbade
	fetched []string // addresses
	loads   int      // pages that were loaded
}

// launch starts a browser, or skips the test if there is none.
func launch(t *testing.T) *chromium {
	t.Helper()
	path := ""
	for _, name := range browsers {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		// Only a browser tells whether a page works, and not every machine has one.
		t.Skip("SKIPPED: no Chromium is installed (apt install chromium), so the page was not tried in a browser")
	}
	ours, theirs := pipe(t), pipe(t)
	dir, err := os.MkdirTemp("", "softhca-page-*")
	must.Do(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	cmd := exec.CommandContext(ctx, path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--no-first-run", "--user-data-dir="+dir, "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{ours[0], theirs[1]} // 3 and 4
	must.Do(t, cmd.Start())
	_, _ = ours[0].Close(), theirs[1].Close()
	t.Cleanup(func() { // it ends with its pipe, and what it started may write for a moment longer
		_ = ours[1].Close()
		_ = cmd.Wait()
		cancel()
		_ = os.RemoveAll(dir)
	})
	b := &chromium{t: t, in: ours[1], out: bufio.NewReader(theirs[0])}
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

func pipe(t *testing.T) [2]*os.File {
	t.Helper()
	r, w, err := os.Pipe()
	must.Do(t, err)
	return [2]*os.File{r, w}
}

// answer is a message of the browser.
type answer struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct{ Message string }
}

// call calls a method and waits for what it returns.
func (b *chromium) call(method string, params any, result any) {
	b.t.Helper()
	b.id++
	m := map[string]any{"id": b.id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	for {
		a := b.next()
		b.note(a)
		if a.ID != b.id {
			continue
		}
		if a.Error != nil {
			b.t.Fatalf("%s: %s", method, a.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(a.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
		return
	}
}

// next returns the next message of the browser.
func (b *chromium) next() *answer {
	b.t.Helper()
	text, err := b.out.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("the browser ended: %v", err)
	}
	a := &answer{}
	must.Do(b.t, json.Unmarshal(text[:len(text)-1], a))
	return a
}

// note keeps what went wrong in the page, and what it fetched.
func (b *chromium) note(a *answer) {
	switch a.Method {
	case "Page.loadEventFired":
		b.loads++
	case "Runtime.exceptionThrown", "Log.entryAdded":
		b.errors = append(b.errors, string(a.Params))
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		if json.Unmarshal(a.Params, &p) == nil {
			b.fetched = append(b.fetched, p.Request.URL)
		}
	}
}

// screen sets the size of the window, and light or dark.
func (b *chromium) screen(width, height int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]string{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// open opens a page and waits until its script is done.
func (b *chromium) open(file string) {
	b.t.Helper()
	before := b.loads
	b.call("Page.navigate", map[string]any{"url": "file://" + file}, nil)
	for b.loads == before { // until then a script may still run in the page before
		b.note(b.next())
	}
	const ready = `new Promise(done => { const look = () => document.documentElement.dataset.ready ? done("ready") :
		document.getElementById("failure")?.textContent ? done(document.getElementById("failure").textContent) : setTimeout(look, 10); look(); })`
	if got := b.eval(ready); got != "ready" {
		b.t.Fatalf("the page says %v", got)
	}
}

// eval returns the value of an expression in the page, after waiting for it if it
// is a promise, and for what is drawn.
func (b *chromium) eval(expression string) any {
	b.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, r.ExceptionDetails)
	}
	return r.Result.Value
}

// click clicks with the mouse at the middle of the first element of a selector.
func (b *chromium) click(selector string) {
	b.t.Helper()
	at := b.eval(fmt.Sprintf(`(() => { const e = document.querySelector(%q); if (!e) return null; e.scrollIntoView({block: "nearest"});
		const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`, selector))
	xy, ok := at.([]any)
	if !ok {
		b.t.Fatalf("there is no %s", selector)
	}
	b.mouse("mousePressed", xy[0], xy[1])
	b.mouse("mouseReleased", xy[0], xy[1])
	b.eval(drawn)
}

func (b *chromium) mouse(kind string, x, y any) {
	b.t.Helper()
	b.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}, nil)
}

// drawn waits until what changed is drawn.
const drawn = `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`

// write writes into an input.
func (b *chromium) write(selector, text string) {
	b.t.Helper()
	b.eval(fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.focus(); e.value = ""; e.dispatchEvent(new Event("input")); })()`, selector))
	b.call("Input.insertText", map[string]any{"text": text}, nil)
	b.eval(drawn)
}

// shot returns a screenshot, and keeps it if that is asked for.
func (b *chromium) shot(name string) []byte {
	b.t.Helper()
	b.eval(drawn)
	var r struct{ Data []byte }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &r)
	b.save(name+".png", r.Data)
	return r.Data
}

// print returns the page on paper, as PDF.
func (b *chromium) print(name string) []byte {
	b.t.Helper()
	var r struct{ Data string }
	b.call("Page.printToPDF", map[string]any{"printBackground": true, "preferCSSPageSize": true}, &r)
	pdf, err := base64.StdEncoding.DecodeString(r.Data)
	must.Do(b.t, err)
	b.save(name+".pdf", pdf)
	return pdf
}

func (b *chromium) save(name string, data []byte) {
	b.t.Helper()
	if *shots == "" {
		return
	}
	must.Do(b.t, os.WriteFile(filepath.Join(*shots, name), data, 0o644))
}
