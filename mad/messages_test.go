package mad

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/softhca/softhca/ib"
	"pgregory.net/rapid"
)

// message is what the types of data have in common.
type message interface {
	Decode(*MAD)
	Put(*MAD)
}

// kind is a type of data, as the tests go through them.
type kind struct {
	name string
	attr AttrID
	zero func() message
	draw func(*rapid.T) message // any field values, also too wide ones
}

func makeKind[T any, P interface {
	*T
	message
}](name string, attr AttrID) kind {
	psn := rapid.Map(rapid.Uint32(), ib.NewPSN).AsAny()
	values := rapid.MakeCustom[T](rapid.MakeConfig{
		Types: map[reflect.Type]*rapid.Generator[any]{reflect.TypeFor[ib.PSN](): psn},
	})
	return kind{
		name: name, attr: attr,
		zero: func() message { return P(new(T)) },
		draw: func(t *rapid.T) message {
			v := values.Draw(t, name)
			return P(&v)
		},
	}
}

var kinds = []kind{
	makeKind[REQ]("REQ", AttrREQ),
	makeKind[MRA]("MRA", AttrMRA),
	makeKind[REJ]("REJ", AttrREJ),
	makeKind[REP]("REP", AttrREP),
	makeKind[RTU]("RTU", AttrRTU),
	makeKind[DREQ]("DREQ", AttrDREQ),
	makeKind[DREP]("DREP", AttrDREP),
	makeKind[SIDRREQ]("SIDR_REQ", AttrSIDRREQ),
	makeKind[SIDRREP]("SIDR_REP", AttrSIDRREP),
	makeKind[LAP]("LAP", AttrLAP),
	makeKind[APR]("APR", AttrAPR),
	makeKind[ClassPortInfo]("ClassPortInfo", AttrClassPortInfo),
}

// decoded returns the data of m as the kind reads it.
func (k *kind) decoded(m *MAD) message {
	v := k.zero()
	v.Decode(m)
	return v
}

// checkStable checks that v, decoded from some bytes, survives encoding: the
// bytes decode to v again, encode to themselves, and the header stays.
func checkStable(t rapid.TB, k *kind, v message) {
	t.Helper()
	m := MAD{0xaa, 23: 0xbb, 24: 0xcc, 255: 0xdd}
	v.Put(&m)
	if m[0] != 0xaa || m[23] != 0xbb {
		t.Fatalf("%s: Put changes the header", k.name)
	}
	again := k.decoded(&m)
	if !reflect.DeepEqual(again, v) {
		t.Fatalf("%s: encoded and decoded, it is\n%+v, want\n%+v", k.name, again, v)
	}
	var n MAD
	again.Put(&n)
	if *n.Data() != *m.Data() {
		t.Fatalf("%s: encoded twice, it is\n% x, want\n% x", k.name, *n.Data(), *m.Data())
	}
}

// TestC2_RoundTrip shows that whatever the fields of a message are, what the
// peer decodes is what it would encode.
func TestC2_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(kinds).Draw(t, "kind")
		var m MAD
		k.draw(t).Put(&m)
		checkStable(t, &k, k.decoded(&m))
	})
}

// testSeed makes the random tests repeatable; a failure prints it.
const testSeed = 20260801

// TestC2_AnyBytes shows the same of messages that are read from any bytes.
func TestC2_AnyBytes(t *testing.T) {
	t.Logf("seed %d", testSeed)
	r := rand.New(rand.NewPCG(testSeed, 0))
	for range 500 {
		m := randomMAD(r)
		for i := range kinds {
			checkStable(t, &kinds[i], kinds[i].decoded(&m))
		}
	}
}

func randomMAD(r *rand.Rand) MAD {
	var m MAD
	for i := range m {
		m[i] = byte(r.Uint32())
	}
	return m
}

// TestNoAllocation shows that messages cost no memory but their own.
func TestNoAllocation(t *testing.T) {
	var m MAD
	var req REQ
	n := testing.AllocsPerRun(100, func() {
		m.PutHeader(CMHeader(AttrREQ, 1))
		req.Put(&m)
		req.Decode(&m)
		if m.Header().AttrID != AttrREQ {
			t.Error("the header does not hold what was put")
		}
	})
	if n != 0 {
		t.Errorf("encoding and decoding a REQ allocates %v times", n)
	}
}

func BenchmarkREQ(b *testing.B) {
	b.ReportAllocs()
	var m MAD
	var req REQ
	for b.Loop() {
		req.Put(&m)
		req.Decode(&m)
	}
}
