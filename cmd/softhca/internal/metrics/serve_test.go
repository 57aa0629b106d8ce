package metrics

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
)

// served serves an exporter and returns its URL, and a function that ends the server and returns its
// error.
func served(t *testing.T, h http.Handler) (url string, end func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, h, func(string, ...any) {}) }()
	t.Cleanup(cancel)
	return "http://" + l.Addr().String(), func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Minute):
			return errors.New("the server does not end")
		}
	}
}

// get returns status, type and content of a page.
func get(t *testing.T, url, accept string) (status int, kind, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must.Do(t, err)
	r.Header.Set("Accept", accept)
	answer, err := http.DefaultClient.Do(r)
	must.Do(t, err)
	defer func() { must.Do(t, answer.Body.Close()) }()
	b, err := io.ReadAll(answer.Body)
	must.Do(t, err)
	return answer.StatusCode, answer.Header.Get("Content-Type"), string(b)
}

// TestServe reads the pages in both formats, and ends the server.
func TestServe(t *testing.T) {
	e := New(Config{Log: t.Logf, QPs: 1})
	defer func() { must.Do(t, e.Close()) }()
	h, err := Handler(e)
	must.Do(t, err)
	url, end := served(t, h)
	for _, c := range []struct{ path, accept, kind, want string }{
		{"/", "*/*", "text/html", `<a href="/metrics">`},
		{"/metrics", "*/*", "text/plain", "\nsofthca_exporter_tables "},
		{"/metrics", "application/openmetrics-text;version=1.0.0", "application/openmetrics-text", "\n# EOF\n"},
		{"/metrics", "*/*", "text/plain", "\npromhttp_metric_handler_requests_total{"},
	} {
		status, kind, text := get(t, url+c.path, c.accept)
		if status != http.StatusOK || !strings.HasPrefix(kind, c.kind) || !strings.Contains(text, c.want) {
			t.Errorf("%s for %s: status %d, %s without %q:\n%.500s", c.path, c.accept, status, kind, c.want, text)
		}
	}
	if status, _, _ := get(t, url+"/other", "*/*"); status != http.StatusNotFound {
		t.Errorf("/other has status %d", status)
	}
	answer, err := http.Post(url+"/metrics", "text/plain", strings.NewReader("x"))
	must.Do(t, err)
	must.Do(t, answer.Body.Close())
	if answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST has status %d", answer.StatusCode)
	}
	must.Do(t, end())
	if _, err := http.Get(url); err == nil {
		t.Error("the server has ended and still answers")
	}
}

// TestScrapesAreBounded holds the exporter while more scrapes begin than may run at the same time: the
// others get status 503. The server lets those that run finish when it ends.
func TestScrapesAreBounded(t *testing.T) {
	e := New(Config{Log: t.Logf, QPs: 1})
	defer func() { must.Do(t, e.Close()) }()
	h, err := Handler(e)
	must.Do(t, err)
	url, end := served(t, h)
	e.mu.Lock()
	const more = 3
	statuses := make(chan int, maxScrapes+more)
	for range maxScrapes + more {
		go func() {
			answer, err := http.Get(url + "/metrics")
			if err != nil {
				statuses <- 0
				return
			}
			_ = answer.Body.Close()
			statuses <- answer.StatusCode
		}()
	}
	for range more {
		if got := <-statuses; got != http.StatusServiceUnavailable {
			t.Errorf("a scrape beyond the bound has status %d", got)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	e.mu.Unlock()
	for range maxScrapes {
		if got := <-statuses; got != http.StatusOK {
			t.Errorf("a scrape within the bound has status %d", got)
		}
	}
	must.Do(t, <-ended)
}
