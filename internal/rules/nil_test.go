package rules

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// Fragile has methods that break the rule and others that do not.
type Fragile struct{ n int }

// Panics panics.
func (f *Fragile) Panics() int { return f.n }

// Silent returns no error.
func (f *Fragile) Silent(...string) error { return nil }

// Excused returns none either.
func (f *Fragile) Excused(error) error { return nil }

// Sound obeys the rule.
func (f *Fragile) Sound() error { return os.ErrInvalid }

// Value is called on nothing.
func (f Fragile) Value() int { return f.n }

// TestNilReceiversRejects shows what the rule rejects.
func TestNilReceiversRejects(t *testing.T) {
	dir := t.TempDir()
	src := `package p
type Fragile struct{ n int }
func (f *Fragile) Panics() int { return f.n }
func (f *Fragile) Silent(...string) error { return nil }
func (f *Fragile) Excused(error) error { return nil }
func (f *Fragile) Sound() error { return os.ErrInvalid }
func (f Fragile) Value() int { return f.n }
type Forgotten struct{}
func (*Forgotten) Method() {}
func (*hidden) Method() {}
`
	must.Do(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte(src), 0o600))
	got, err := NilReceivers(dir, []string{"Fragile.Excused"}, (*Fragile)(nil))
	want := []string{
		"Forgotten.Method was not called",
		"Fragile.Panics of nil panics: runtime error: invalid memory address or nil pointer dereference",
		"Fragile.Silent of nil returns no error",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("found %q, %v, want %q", got, err, want)
	}
}
