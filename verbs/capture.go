package verbs

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
)

// capturing returns p, wrapped in a port that writes Config.Capture if there
// is one.
func (c *Config) capturing(p fabric.Port) (fabric.Port, error) {
	if c.Capture == nil {
		return p, nil
	}
	return nil, fmt.Errorf("capture: %w", ib.EOPNOTSUPP)
}
