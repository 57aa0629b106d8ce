package explore

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// ask asks the oracle about a run that ended well. It returns what the oracle said if it said no.
func (p *Program) ask(ctx context.Context, limit time.Duration) (denied string, err error) {
	r, err := start(ctx, []string{"/bin/sh", "-c", p.Oracle}, p.Env, limit, nil)
	if err != nil {
		return "", fmt.Errorf("the oracle: %w", err)
	}
	last := strings.TrimSpace(r.Output)
	if last = last[strings.LastIndexByte(last, '\n')+1:]; last != "" {
		last = ": " + last
	}
	switch {
	case r.TimedOut:
		return fmt.Sprintf("it did not end in %v%s", limit, last), nil
	case r.Code != 0:
		return fmt.Sprintf("exit code %d%s", r.Code, last), nil
	}
	return "", nil
}
