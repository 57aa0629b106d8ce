package demo

import "fmt"

// counters is the scene that shows what both adapters counted. It looks that
// nothing was lost or refused on the way.
func (s *stage) counters() error {
	s.title("Counters so far")
	a, err := s.a.Device.Counters()
	if err != nil {
		return err
	}
	b, err := s.b.Device.Counters()
	if err != nil {
		return err
	}
	s.line("%s", s.paint(bold, fmt.Sprintf("%-26s %10s %10s", "", "A", "B")))
	var again, corrupt uint64
	for i := range a {
		if a[i].Value != 0 || b[i].Value != 0 {
			s.line("%-26s %10d %10d", a[i].Name, a[i].Value, b[i].Value)
		}
		switch a[i].Name {
		case "retrans_pkts":
			again += a[i].Value + b[i].Value
		case "drop_icrc_errors", "drop_malformed":
			corrupt += a[i].Value + b[i].Value
		}
	}
	s.line("")
	s.check(again == 0 && corrupt == 0, "%d packets had to be sent again, %d arrived damaged", again, corrupt)
	return nil
}
