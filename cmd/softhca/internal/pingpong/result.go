package pingpong

import (
	"fmt"
	"io"
	"time"
)

// Result is what a run measured.
type Result struct {
	Size    int           // bytes of a message
	Iters   int           // messages each way
	Elapsed time.Duration // from the first send to the last completion
}

// Text prints the two lines that the Linux programs print.
func (r Result) Text(w io.Writer) error {
	seconds := r.Elapsed.Seconds()
	total := 2 * int64(r.Size) * int64(r.Iters)
	_, err := fmt.Fprintf(w, "%d bytes in %.2f seconds = %.2f Mbit/sec\n%d iters in %.2f seconds = %.2f usec/iter\n",
		total, seconds, float64(total)*8/seconds/1e6, r.Iters, seconds, seconds*1e6/float64(r.Iters))
	return err
}
