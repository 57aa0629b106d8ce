package verbs

import (
	"fmt"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/capture"
)

// capturing returns p, wrapped in a port that writes Config.Capture if there
// is one.
func (c *Config) capturing(p fabric.Port) (fabric.Port, error) {
	if c.Capture == nil {
		return p, nil
	}
	w, err := capture.Wrap(p, c.Capture, capture.Options{})
	if err != nil {
		_ = p.Close() // the error that matters is the capture's
		return nil, err
	}
	return w, nil
}

// captured is what a capturing port says about its file.
type captured interface{ Err() error }

// CaptureErr returns the first error of writing Config.Capture, after which
// nothing more was written; nil without a capture.
func (c *Context) CaptureErr() error {
	p, ok := c.port.(captured)
	if !ok {
		return nil
	}
	if err := p.Err(); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	return nil
}
