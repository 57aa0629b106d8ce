package script

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/softhca/softhca/ib"
)

// field is a field of a management message, as scripts write it.
type field[M any] struct {
	name   string
	shown  manner
	isFlag bool // a bare word sets it
	set    func(*world, *M, string) error
	show   func(*world, *M) string
}

// manner says when a field is shown: in a message that the adapter sends, and
// in the event that a message of the peer causes.
type manner uint8

const (
	always  manner = iota // in both
	telling               // in both, unless the value is zero
	plainly               // in a message, unless both the value and its default are zero
	unusual               // in a message, unless it has its default
)

// readFields sets the fields that a command names.
func readFields[M any](w *world, m *M, fields []field[M], a *args) {
	for i := range fields {
		f := &fields[i]
		s, given := "1", f.isFlag && a.flag(f.name)
		if !given {
			s, given = a.str(f.name, ""), a.has(f.name)
		}
		if !given {
			continue
		}
		if err := f.set(w, m, s); err != nil {
			a.fail(fmt.Errorf("%s: %w", f.name, err))
		}
	}
}

// showSent shows a message of the adapter.
func showSent[M any](w *world, m, usual *M, fields []field[M]) []string {
	var out []string
	var zero M
	for i := range fields {
		f := &fields[i]
		s, u := f.show(w, m), f.show(w, usual)
		leave := s == u && (f.shown == unusual || s == f.show(w, &zero))
		if f.shown == always || !leave {
			out = append(out, f.text(s))
		}
	}
	return out
}

// showTold shows the fields of a message that an event reports to the consumer.
func showTold[M any](w *world, m *M, fields []field[M]) []string {
	var out []string
	var zero M
	for i := range fields {
		f := &fields[i]
		s := f.show(w, m)
		if f.shown == always || f.shown == telling && s != f.show(w, &zero) {
			out = append(out, f.text(s))
		}
	}
	return out
}

func (f *field[M]) text(s string) string {
	if f.isFlag && s == "1" {
		return f.name
	}
	return f.name + "=" + s
}

type natural interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

// numberField is a number of at most bits bits, shown in format.
func numberField[M any, T natural](name string, shown manner, bits int, format string, at func(*M) *T) field[M] {
	return field[M]{
		name: name, shown: shown,
		set:  func(w *world, m *M, s string) error { return setNumber(w, at(m), s, bits, plainNumber) },
		show: func(_ *world, m *M) string { return fmt.Sprintf(format, uint64(*at(m))) },
	}
}

// idField is a communication ID, for which a connection's name may stand, in
// the sense of in.
func idField[M any](name string, in sense, at func(*M) *uint32) field[M] {
	return field[M]{
		name: name, shown: plainly,
		set:  func(w *world, m *M, s string) error { return setNumber(w, at(m), s, 32, in) },
		show: func(_ *world, m *M) string { return fmt.Sprintf("%#x", *at(m)) },
	}
}

// qpField is a queue pair's number, or its name.
func qpField[M any](name string, shown manner, at func(*M) *ib.QPN) field[M] {
	return field[M]{
		name: name, shown: shown,
		set: func(w *world, m *M, s string) error { return setNumber(w, at(m), s, 24, number) },
		show: func(w *world, m *M) string {
			for _, q := range w.qps {
				if q.Num() == *at(m) {
					return q.name
				}
			}
			return fmt.Sprintf("%#x", uint32(*at(m)))
		},
	}
}

func setNumber[T natural](w *world, to *T, s string, bits int, in sense) error {
	v, err := w.eval(s, in)
	if err == nil && v>>(bits-1)>>1 != 0 {
		err = fmt.Errorf("%d is more than %d bits hold", v, bits)
	}
	*to = T(v)
	return err
}

func psnField[M any](name string, at func(*M) *ib.PSN) field[M] {
	return field[M]{
		name: name, shown: plainly,
		set: func(w *world, m *M, s string) error {
			v, err := w.eval(s, plainNumber)
			*at(m) = ib.NewPSN(uint32(v))
			return err
		},
		show: func(_ *world, m *M) string { return fmt.Sprint(at(m).Value()) },
	}
}

func flagField[M any](name string, shown manner, at func(*M) *bool) field[M] {
	return field[M]{
		name: name, shown: shown, isFlag: true,
		set: func(_ *world, m *M, s string) error {
			*at(m) = s == "1"
			if s != "0" && s != "1" {
				return fmt.Errorf("want 0 or 1, not %s", s)
			}
			return nil
		},
		show: func(_ *world, m *M) string {
			if *at(m) {
				return "1"
			}
			return "0"
		},
	}
}

// enumerated is a number whose values have names.
type enumerated interface {
	~uint8 | ~uint16
	fmt.Stringer
}

// enumField is a name, with _ for blanks, or a number.
func enumField[M any, T enumerated](name string, shown manner, max T, at func(*M) *T) field[M] {
	f := codeField(name, shown, max, at)
	f.show = func(_ *world, m *M) string {
		if s := (*at(m)).String(); !strings.Contains(s, "(") {
			return s
		}
		return fmt.Sprintf("%#x", uint64(*at(m)))
	}
	return f
}

// codeField is an enumField that is printed with its number, and can be set by its
// number.
func codeField[M any, T enumerated](name string, shown manner, max T, at func(*M) *T) field[M] {
	return field[M]{
		name: name, shown: shown,
		set:  func(_ *world, m *M, s string) (err error) { *at(m), err = parseEnum(s, max); return err },
		show: func(_ *world, m *M) string { return fmt.Sprintf("%d (%v)", *at(m), *at(m)) },
	}
}

// parseEnum reads an enum value: one up to max by its name, any by its number.
func parseEnum[T enumerated](s string, max T) (T, error) {
	if s != "" && s[0] >= '0' && s[0] <= '9' {
		v, err := parseNumber(s)
		if err == nil && uint64(T(v)) != v {
			err = fmt.Errorf("%d is too large", v)
		}
		return T(v), err
	}
	var known []string
	for v := range uint64(max) + 1 {
		name := strings.ReplaceAll(T(v).String(), " ", "_")
		if strings.EqualFold(name, s) {
			return T(v), nil
		}
		if !strings.Contains(name, "(") { // unnamed values print as T(n)
			known = append(known, name)
		}
	}
	return 0, fmt.Errorf("there is no %s%s", s, hint(s, known))
}

func gidField[M any](name string, at func(*M) *ib.GID) field[M] {
	return field[M]{
		name: name, shown: unusual,
		set: func(_ *world, m *M, s string) error {
			if s == "0" {
				*at(m) = ib.GID{}
				return nil
			}
			ip, err := netip.ParseAddr(s)
			*at(m) = ib.GIDFromAddr(ip)
			return err
		},
		show: func(_ *world, m *M) string {
			if at(m).IsZero() {
				return "0"
			}
			return at(m).Addr().String()
		},
	}
}

// mtuField is a path MTU in bytes; a number below 16 is a code.
func mtuField[M any](name string, at func(*M) *ib.MTU) field[M] {
	return field[M]{
		name: name, shown: plainly,
		set: func(w *world, m *M, s string) (err error) { *at(m), err = parseMTU(w, s); return err },
		show: func(_ *world, m *M) string {
			if at(m).Valid() {
				return fmt.Sprint(at(m).Bytes())
			}
			return fmt.Sprintf("code(%d)", uint8(*at(m)))
		},
	}
}

func parseMTU(w *world, s string) (ib.MTU, error) {
	v, err := w.eval(s, plainNumber)
	if err != nil || v < 16 {
		return ib.MTU(v), err
	}
	var at ib.QPAttr
	err = setMTU(w, &at, s)
	return at.PathMTU, err
}

// dataField is private data, shown without its trailing zeros.
func dataField[M any](at func(*M) []byte) field[M] {
	return field[M]{
		name: "private", shown: telling,
		set: func(_ *world, m *M, s string) error { return setBytes(at(m), s, nil) },
		show: func(_ *world, m *M) string {
			b := at(m)
			for len(b) > 0 && b[len(b)-1] == 0 {
				b = b[:len(b)-1]
			}
			return ShowData(b)
		},
	}
}

// infoFields are additional information and its length, which a peer may
// overstate.
func infoFields[M any](bits int, at func(*M) []byte, length func(*M) *uint8) []field[M] {
	return []field[M]{
		{
			name: "info", shown: telling,
			set:  func(_ *world, m *M, s string) error { return setBytes(at(m), s, length(m)) },
			show: func(_ *world, m *M) string { return ShowData(at(m)[:min(int(*length(m)), len(at(m)))]) },
		},
		{
			name: "info_len", shown: unusual,
			set:  func(w *world, m *M, s string) error { return setNumber(w, length(m), s, bits, plainNumber) },
			show: func(_ *world, m *M) string { return fmt.Sprint(max(int(*length(m)), len(at(m)))) },
		},
	}
}

// setBytes reads data into a field of a message, and its length.
func setBytes(to []byte, s string, length *uint8) error {
	b, err := parseData(s)
	if err != nil {
		return err
	}
	if len(b) > len(to) {
		return fmt.Errorf("%d bytes do not fit the %d of the field", len(b), len(to))
	}
	clear(to[copy(to, b):])
	if length != nil {
		*length = uint8(len(b))
	}
	return nil
}
