package rdmacm

import (
	"testing"

	"github.com/softhca/softhca/internal/rules"
)

// TestNilReceivers calls every method on nil, as a program does that goes on
// after an error: none panics, and what can fail does.
func TestNilReceivers(t *testing.T) {
	wrong, err := rules.NilReceivers(".", nil,
		(*Channel)(nil), (*Conn)(nil), (*Event)(nil), (*EventChannel)(nil), (*ID)(nil), (*Listener)(nil), (*Manager)(nil), (*RejectError)(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wrong {
		t.Error(w)
	}
}
