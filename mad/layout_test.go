package mad

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/golden"
)

const dataBits = DataSize * 8

// leaf is a field that is not a struct.
type leaf struct {
	name  string
	value reflect.Value
}

// leaves returns the fields of a struct, those of structs in it too.
func leaves(prefix string, v reflect.Value) []leaf {
	var all []leaf
	for i := range v.NumField() {
		name, f := prefix+v.Type().Field(i).Name, v.Field(i)
		if f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[ib.PSN]() {
			all = append(all, leaves(name+".", f)...)
			continue
		}
		all = append(all, leaf{name, f})
	}
	return all
}

// width returns how many bits the field has in Go.
func (l *leaf) width() int {
	switch l.value.Kind() {
	case reflect.Bool:
		return 1
	case reflect.Array:
		return l.value.Len() * 8
	case reflect.Struct:
		return 24
	default:
		return l.value.Type().Bits()
	}
}

// set makes one bit of the field 1, counted from the most significant, and
// all others 0.
func (l *leaf) set(bit int) {
	l.value.SetZero()
	n := l.width() - 1 - bit
	switch l.value.Kind() {
	case reflect.Bool:
		l.value.SetBool(true)
	case reflect.Array:
		l.value.Index(bit / 8).SetUint(1 << (n % 8))
	case reflect.Struct:
		l.value.Set(reflect.ValueOf(ib.NewPSN(1 << n)))
	default:
		l.value.SetUint(1 << n)
	}
}

// bitsOf returns the positions of the bits that are 1, bit 0 the most
// significant of the first byte.
func bitsOf(d *[DataSize]byte) []int {
	var set []int
	for i := range dataBits {
		if d[i/8]>>(7-i%8)&1 != 0 {
			set = append(set, i)
		}
	}
	return set
}

// run is a stretch of neighbouring bits.
type run struct{ first, bits int }

func (r run) String() string { return fmt.Sprintf("%d.%d:%d", r.first/8, r.first%8, r.bits) }

// placesOf finds, bit by bit, the place of each field in the data, and returns a
// line for each field and each stretch of reserved bits. It checks that the
// bits are in the field's order, that no bit has two fields and that each bit
// is read from where it was written.
func placesOf(t *testing.T, k *kind) (text string, reserved []int) {
	t.Helper()
	var out bytes.Buffer
	owner := make([]string, dataBits)
	v := k.zero()
	fields := leaves("", reflect.ValueOf(v).Elem())
	for i := range fields {
		l := &fields[i]
		var runs []run
		for bit := range l.width() {
			l.set(bit)
			var m MAD
			v.Put(&m)
			at := bitsOf(m.Data())
			if len(at) == 0 && len(runs) == 0 {
				continue // wider in Go than on the wire
			}
			if len(at) != 1 {
				t.Fatalf("%s: bit %d of %s is written to the bits %v", k.name, bit, l.name, at)
			}
			if other := owner[at[0]]; other != "" {
				t.Fatalf("%s: bit %d of %s is written to a bit of %s", k.name, bit, l.name, other)
			}
			if again := k.decoded(&m); !reflect.DeepEqual(again, v) {
				t.Fatalf("%s: bit %d of %s is read as\n%+v", k.name, bit, l.name, again)
			}
			owner[at[0]] = l.name
			runs = extend(runs, at[0])
		}
		l.value.SetZero()
		fmt.Fprintf(&out, "%s %s %v\n", k.name, l.name, runs)
	}
	var free []run
	for i, name := range owner {
		if name == "" {
			free = extend(free, i)
			reserved = append(reserved, i)
		}
	}
	fmt.Fprintf(&out, "%s (reserved) %v\n", k.name, free)
	return out.String(), reserved
}

// extend adds the position of a bit to the last of some runs, or begins a new
// one.
func extend(runs []run, at int) []run {
	if n := len(runs); n > 0 && runs[n-1].first+runs[n-1].bits == at {
		runs[n-1].bits++
		return runs
	}
	return append(runs, run{at, 1})
}

// TestC2_Layout compares where every field of every message stands with a
// golden table, checked by hand against the tables of IBA chapter 12: byte,
// bit from the most significant, and width in bits.
func TestC2_Layout(t *testing.T) {
	var all bytes.Buffer
	for i := range kinds {
		text, _ := placesOf(t, &kinds[i])
		all.WriteString(text)
	}
	golden.Check(t, "testdata/layout.golden", all.String())
}

// TestC2_ReservedBits shows that a reserved bit, whatever it is and whatever
// stands around it, changes nothing that is read and is sent as zero.
func TestC2_ReservedBits(t *testing.T) {
	t.Logf("seed %d", testSeed)
	r := rand.New(rand.NewPCG(testSeed, 1))
	for i := range kinds {
		k := &kinds[i]
		_, reserved := placesOf(t, k)
		for _, bit := range reserved {
			m := randomMAD(r)
			n := m
			n[HeaderSize+bit/8] ^= 0x80 >> (bit % 8)
			v := k.decoded(&m)
			if !reflect.DeepEqual(k.decoded(&n), v) {
				t.Fatalf("%s: the reserved bit %d.%d changes what is read", k.name, bit/8, bit%8)
			}
			v.Put(&m)
			if m.Data()[bit/8]>>(7-bit%8)&1 != 0 {
				t.Fatalf("%s: the reserved bit %d.%d is sent as 1", k.name, bit/8, bit%8)
			}
		}
	}
}
