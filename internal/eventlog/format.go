package eventlog

import (
	"fmt"
	"io"
	"log/slog"
)

// The names of the formats of a log.
const (
	Text = "text"
	JSON = "json"
)

// Level returns the level with a name, Warn for the empty name. The error begins with the name.
func Level(name string) (level slog.Level, err error) {
	if name == "" {
		return slog.LevelWarn, nil
	}
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return slog.LevelWarn, fmt.Errorf("%q: want debug, info, warn or error", name)
	}
	return level, nil
}

// CheckFormat returns an error, which begins with the name, unless it is that of a format or empty.
func CheckFormat(name string) error {
	switch name {
	case "", Text, JSON:
		return nil
	default:
		return fmt.Errorf("%q: want text or json", name)
	}
}

// NewLogger returns a logger that writes in a format; the empty name stands for Text. Errors: those
// of CheckFormat, with a logger that writes Text.
func NewLogger(w io.Writer, format string, o *slog.HandlerOptions) (*slog.Logger, error) {
	if format == JSON {
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return slog.New(slog.NewTextHandler(w, o)), CheckFormat(format)
}
