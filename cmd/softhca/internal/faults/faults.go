package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/internal/fault"
)

// width is the columns of the list.
const width = 100

// entry is one fault of the catalogue, in the form of --json.
type entry struct {
	Fault     string  `json:"fault"`               // its name
	Where     string  `json:"where"`               // packets, responder or verbs
	Usage     string  `json:"usage"`               // the name with its arguments
	Text      string  `json:"text"`                // description of the fault
	Example   string  `json:"example"`             // a rule
	Explained string  `json:"explained"`           // effect of the example
	Arguments []param `json:"arguments,omitempty"` // arguments of the fault
	Selectors []param `json:"selectors"`           // selectors of the packets or objects that it acts on
}

// param is an argument or a selector.
type param struct {
	Name string `json:"name"` // name in a rule
	Text string `json:"text"` // its meaning
}

// catalogue returns every fault.
func catalogue() (all []entry) {
	for a := range fault.NumActions {
		e := entry{
			Fault: a.String(), Where: a.Layer().String(), Usage: a.Usage(), Text: a.Text(), Example: a.Example(),
			Arguments: describe(a.Args()), Selectors: describe(a.Selectors()),
		}
		// A test checks that the catalogue's examples are valid rules.
		if rules, err := fault.Parse(e.Example); err == nil {
			e.Explained = rules[0].Explain()
		}
		all = append(all, e)
	}
	return all
}

func describe(ps []fault.Param) (out []param) {
	for _, p := range ps {
		out = append(out, param{p.String(), p.Text()})
	}
	return out
}

// ListJSON writes the catalogue as a JSON array.
func ListJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(catalogue())
}

// List writes the catalogue as text: for each place, its faults with their arguments
// and an example, and then the selectors of the place.
func List(w io.Writer) error {
	var b strings.Builder
	paragraph(&b, 0, fault.Grammar)
	where := ""
	var selectors []param
	end := func() {
		if len(selectors) > 0 {
			b.WriteString("\n  Selectors:\n")
			parameters(&b, selectors)
		}
	}
	for _, e := range catalogue() {
		if e.Where != where {
			end()
			where, selectors = e.Where, e.Selectors
			fmt.Fprintf(&b, "\n%s\n", strings.ToUpper(where))
		}
		fmt.Fprintf(&b, "\n  %s\n      ", e.Usage)
		paragraph(&b, 6, e.Text)
		parameters(&b, e.Arguments)
		fmt.Fprintf(&b, "      Example: %s\n%15s", e.Example, "")
		paragraph(&b, 15, e.Explained)
	}
	end()
	_, err := io.WriteString(w, b.String())
	return err
}

// parameters writes names and their meanings in columns.
func parameters(b *strings.Builder, ps []param) {
	const column = 18
	for _, p := range ps {
		fmt.Fprintf(b, "%-*s", column, "      "+p.Name)
		paragraph(b, column, p.Text)
	}
}

// paragraph writes indented text in lines of limited width. The first line continues
// the current line of b.
func paragraph(b *strings.Builder, column int, s string) {
	lines := text.Wrap(strings.Join(strings.Fields(s), " "), width-column, 0)
	b.WriteString(strings.Join(lines, "\n"+strings.Repeat(" ", column)) + "\n")
}

// Rule is a rule and what it will do.
type Rule struct {
	Rule string `json:"rule"` // in its canonical spelling
	Does string `json:"does"` // description in words
}

// Explain parses rules and explains each of them. The error points at the first
// mistake.
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
