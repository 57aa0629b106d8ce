package faults

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/softhca/softhca/internal/fabric/fault"
)

// Rule is a rule and what it will do.
type Rule struct {
	Rule string `json:"rule"` // in its canonical spelling
	Does string `json:"does"`
}

// Explain reads rules and says what each will do. The error points at the
// first mistake.
func Explain(text string) ([]Rule, error) {
	parsed, err := fault.Parse(text)
	if err != nil {
		return nil, err
	}
	var rules []Rule
	for _, r := range parsed {
		rules = append(rules, Rule{r.String(), r.Explain()})
	}
	return rules, nil
}

// Write writes rules for people.
func Write(w io.Writer, rules []Rule) error {
	for _, r := range rules {
		if _, err := fmt.Fprintf(w, "%s\n    %s\n", r.Rule, r.Does); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON writes rules as a JSON array.
func WriteJSON(w io.Writer, rules []Rule) error { return json.NewEncoder(w).Encode(rules) }
