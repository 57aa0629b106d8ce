package metrics

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits of the HTTP server.
const (
	maxScrapes    = 4 // at the same time; further ones get status 503
	maxHeader     = 16 << 10
	headerTimeout = 5 * time.Second
	scrapeTimeout = 30 * time.Second
	writeTimeout  = scrapeTimeout + 10*time.Second
	idleTimeout   = 2 * time.Minute
	shutdownWait  = 5 * time.Second
)

// landing is the page at /.
const landing = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>softhca metrics</title></head>
<body><h1>softhca metrics</h1><p>The adapters of this host that the exporter may see: <a href="/metrics">/metrics</a></p></body></html>
`

// Handler returns the pages / and /metrics of an exporter. Metrics of the exporter's process, of its
// runtime and of the scrapes come with those of the adapters.
func Handler(e *Exporter) (http.Handler, error) {
	r := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{e, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	scrape := promhttp.InstrumentMetricHandler(r, promhttp.HandlerFor(r, promhttp.HandlerOpts{
		ErrorLog: logger(e.cfg.Log), ErrorHandling: promhttp.ContinueOnError, Registry: r,
		MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout, EnableOpenMetrics: true,
	}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", scrape)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(landing)) // the client may have gone
	})
	return mux, nil
}

// logger reports what the HTTP packages log.
type logger func(format string, args ...any)

// Println implements promhttp.Logger.
func (l logger) Println(v ...any) { l("%s", strings.TrimSpace(fmt.Sprintln(v...))) }

// Write implements io.Writer for package log.
func (l logger) Write(b []byte) (int, error) {
	l("%s", strings.TrimSpace(string(b)))
	return len(b), nil
}

// Serve answers requests until ctx ends. Then it lets scrapes that have begun finish, for at most
// five seconds, and returns nil. It closes the listener.
func Serve(ctx context.Context, l net.Listener, h http.Handler, say func(format string, args ...any)) error {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: log.New(logger(say), "", 0),
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWait)
	defer cancel()
	err := s.Shutdown(wait)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.Close()
	}
	if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}
