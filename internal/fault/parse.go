package fault

import (
	"errors"
	"fmt"
	"strings"

	"github.com/softhca/softhca/roce"
)

// MaxRules bounds the rules of one text; maxText its bytes.
const (
	MaxRules = 64
	maxText  = 64 << 10
)

// Parse reads rules: an action and its parameters, separated by spaces; rules
// are separated by newlines or semicolons; a # begins a comment that ends with
// the line. An error is a *SyntaxError.
func Parse(text string) ([]Rule, error) {
	if len(text) > maxText {
		return nil, &SyntaxError{Text: text[:maxText], Msg: fmt.Sprintf("the rules have more than %d bytes", maxText)}
	}
	p := parser{text: text}
	for p.at < len(text) {
		words := p.rule()
		if len(words) == 0 {
			continue
		}
		if len(p.rules) == MaxRules {
			return nil, p.errorAt(words[0].at, fmt.Sprintf("more than %d rules", MaxRules), "")
		}
		r, err := p.parse(words)
		if err != nil {
			return nil, err
		}
		p.rules = append(p.rules, r)
	}
	return p.rules, nil
}

// Split splits the value of an environment variable into rules and the names of files with more
// rules, which stand on lines of their own after an @. In the rules, these lines are empty, so
// that the positions of errors remain.
func Split(value string) (rules string, files []string) {
	lines := strings.Split(value, "\n")
	for i, line := range lines {
		if name, ok := strings.CutPrefix(line, "@"); ok {
			files = append(files, name)
			lines[i] = ""
		}
	}
	return strings.Join(lines, "\n"), files
}

// parser reads one text.
type parser struct {
	text  string
	at    int
	rules []Rule
}

// token is a word of a rule.
type token struct {
	at   int // offset in the text
	text string
}

func (p *parser) errorAt(at int, msg, hint string) error {
	return &SyntaxError{Text: p.text, Offset: at, Msg: msg, Hint: hint}
}

// rule returns the words up to the end of the next rule and skips them.
func (p *parser) rule() (words []token) {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '\n', c == ';':
			p.at++
			return words
		case c == '#':
			if i := strings.IndexByte(p.text[p.at:], '\n'); i >= 0 {
				p.at += i
			} else {
				p.at = len(p.text)
			}
		case blank(c):
			p.at++
		default:
			start := p.at
			for p.at < len(p.text) && !blank(p.text[p.at]) && !strings.ContainsRune("\n;#", rune(p.text[p.at])) {
				p.at++
			}
			words = append(words, token{start, p.text[start:p.at]})
		}
	}
	return words
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// parse builds a rule from its words.
func (p *parser) parse(words []token) (r Rule, err error) {
	ok := false
	for a := range NumActions {
		if actions[a].name == words[0].text {
			r.Action, ok = a, true
		}
	}
	if !ok {
		return r, p.errorAt(words[0].at, fmt.Sprintf("unknown fault %.64q", words[0].text), hint(words[0].text, actionNames()))
	}
	for i, w := range words[1:] {
		if err := p.word(&r, w, i == 0); err != nil {
			return r, err
		}
	}
	last := words[len(words)-1]
	return r, p.complete(&r, words[0].at, last.at+len(last.text))
}

func actionNames() (names []string) {
	for _, a := range actions {
		names = append(names, a.name)
	}
	return names
}

// word parses one word after the action.
func (p *parser) word(r *Rule, w token, first bool) error {
	info := &actions[r.Action]
	name, text, isPair := strings.Cut(w.text, "=")
	at := w.at + len(name) + 1
	param, ok := r.Action.find(name)
	switch {
	case !isPair && first && info.bare:
		param, text, at = info.args[0], w.text, w.at
	case !ok:
		return p.errorAt(w.at, fmt.Sprintf("%s has no %.64q", info.name, name), hint(name, r.Action.words()))
	case !isPair && params[param].kind != kindFlag:
		return p.errorAt(w.at+len(w.text), fmt.Sprintf("%s needs a value: %s=…", name, name), "")
	case isPair && params[param].kind == kindFlag:
		return p.errorAt(w.at+len(name), name+" takes no value", "")
	}
	if r.Has(param) {
		return p.errorAt(w.at, fmt.Sprintf("%s is given twice", params[param].name), "")
	}
	v, err := parseValue(param, text)
	if bad := (*wordError)(nil); errors.As(err, &bad) {
		return p.errorAt(at+bad.at, fmt.Sprintf("unknown %s %.64q", params[param].name, bad.word), hint(bad.word, bad.words))
	}
	if err != nil {
		return p.errorAt(at, fmt.Sprintf("%s %.64q: %v", params[param].name, text, err), "")
	}
	r.set(param, v)
	return nil
}

// find returns the parameter with a name that rules of the action may have.
func (a Action) find(name string) (Param, bool) {
	for p := range NumParams {
		if params[p].name == name && a.has(p) {
			return p, true
		}
	}
	return 0, false
}

// words returns the names of the parameters that rules of the action may have.
func (a Action) words() (names []string) {
	for p := range NumParams {
		if a.has(p) {
			names = append(names, params[p].name)
		}
	}
	return names
}

// complete checks that a rule has its required parameters.
func (p *parser) complete(r *Rule, begin, end int) error {
	info := &actions[r.Action]
	for _, q := range info.required {
		if !r.Has(q) {
			return p.errorAt(end, fmt.Sprintf("%s needs %s", info.name, placeholder(info, q)), "for example: "+info.example)
		}
	}
	given := 0
	for _, q := range info.either {
		if r.Has(q) {
			given++
		}
	}
	switch {
	case given > 1:
		return p.errorAt(begin, fmt.Sprintf("give %s either %s= or %s=, not both", info.name, info.either[0], info.either[1]), "")
	case r.Action.Layer() == Verbs && !r.Timed() && !callReaches(r.Call(), r.Object()):
		return p.errorAt(begin, fmt.Sprintf("%s needs a call that affects a %v; %s does not", info.name, r.Object(), r.Call()), "")
	case r.Action.Layer() == Responder && r.values[Op].ops.messages != 0:
		return p.errorAt(begin, "CM messages are datagrams, which an RC responder never gets", "use a fault on packets, such as drop")
	case r.Has(Request) && r.values[Request].num&failing(r.Status()) == 0:
		return p.errorAt(begin, fmt.Sprintf("no %s fails with %v", strings.ReplaceAll(r.values[Request].text, ",", " or "), r.Status()), "")
	case r.Has(Xor) && r.Has(Bit):
		return p.errorAt(begin, "use xor= with byte=, not with bit=", "")
	case r.Action == Truncate && r.Has(Reseal) && r.num(Length, 0) < roce.MinSize:
		return p.errorAt(begin, fmt.Sprintf("a packet with an ICRC has at least %d bytes", roce.MinSize), "")
	}
	return nil
}

// placeholder shows the syntax of a parameter.
func placeholder(info *actionInfo, p Param) string {
	switch {
	case info.bare && p == info.args[0]:
		return strings.ToUpper(params[p].name)
	case params[p].kind == kindFlag:
		return params[p].name
	default:
		return params[p].name + "=…"
	}
}
