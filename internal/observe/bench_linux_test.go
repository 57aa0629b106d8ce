package observe

import "testing"

// BenchmarkRead reads the tables of two adapters with two connected queue pairs, as a reader at 10 Hz
// does.
func BenchmarkRead(b *testing.B) {
	privately(b)
	pair(b)
	s := NewSet()
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Read(); err != nil {
			b.Fatal(err)
		}
	}
}
