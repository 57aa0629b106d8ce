package cmtime

import (
	"fmt"
	"io"
)

// Table prints the steps as cmtime does.
func (s Summary) Table(w io.Writer) error {
	if _, err := fmt.Fprintln(w, "step              total ms     max ms     min us  us / conn"); err != nil {
		return err
	}
	for i := range s.Steps {
		t := &s.Steps[i]
		if _, err := fmt.Fprintf(w, "%-13s: %11.2f%11.2f%11.2f%11.2f\n", t.Name, t.TotalMs, t.MaxMs, t.MinUs, t.ConnUs); err != nil {
			return err
		}
	}
	return nil
}
