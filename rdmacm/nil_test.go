package rdmacm

import (
	"testing"

	"github.com/softhca/softhca/internal/rules"
)

// TestNilReceivers calls every method on nil, like a program that continues after an
// error: none panics, and every method that can fail does.
func TestNilReceivers(t *testing.T) {
	wrong, err := rules.NilReceivers(".", nil,
		(*Channel)(nil), (*Event)(nil), (*EventChannel)(nil), (*ID)(nil), (*Manager)(nil), (*RejectError)(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wrong {
		t.Error(w)
	}
}
