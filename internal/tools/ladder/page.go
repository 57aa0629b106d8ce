package main

import (
	"fmt"
	"strings"
)

// The marks around a diagram.
const (
	begin = "<!-- ladder "
	end   = "<!-- end of ladder -->"
)

// update returns a page with its diagrams drawn anew.
func update(page string, script func(name string) (string, error)) (string, error) {
	var b strings.Builder
	inside := ""
	for line := range strings.Lines(page) {
		text := strings.TrimSpace(line)
		switch {
		case text == end && inside == "":
			return "", fmt.Errorf("%s stands where no diagram begins", end)
		case text == end:
			inside = ""
		case inside != "" && strings.HasPrefix(text, begin):
			return "", fmt.Errorf("%s: the diagram before it does not end", text)
		case inside != "":
			continue
		case strings.HasPrefix(text, begin):
			diagram, err := drawn(text, script)
			if err != nil {
				return "", fmt.Errorf("%s: %w", text, err)
			}
			inside = text
			line += "```\n" + diagram + "```\n"
		}
		b.WriteString(line)
	}
	if inside != "" {
		return "", fmt.Errorf("%s: there is no %s", inside, end)
	}
	return b.String(), nil
}

// drawn returns the diagram that a mark asks for.
func drawn(mark string, script func(name string) (string, error)) (string, error) {
	var name, from, through string
	if _, err := fmt.Sscanf(mark, begin+"%s %q %q -->", &name, &from, &through); err != nil {
		return "", fmt.Errorf("want %sSCRIPT \"FROM\" \"THROUGH\" -->: %w", begin, err)
	}
	text, err := script(name)
	if err != nil {
		return "", err
	}
	lines, err := excerpt(text, from, through)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return draw(lines), nil
}

// excerpt returns the lines of a script from the first that begins with from to the
// next that begins with through.
func excerpt(script, from, through string) (lines []string, err error) {
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		text := strings.TrimSpace(line)
		if lines == nil && !strings.HasPrefix(text, from) {
			continue
		}
		if lines = append(lines, line); strings.HasPrefix(text, through) {
			return lines, nil
		}
	}
	if lines == nil {
		return nil, fmt.Errorf("no line begins with %q", from)
	}
	return nil, fmt.Errorf("after %q no line begins with %q", from, through)
}
