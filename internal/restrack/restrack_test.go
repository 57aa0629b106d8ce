package restrack

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/softhca/softhca/internal/must"
)

// heap is a Memory on the heap, of at most most extents.
type heap struct {
	mem  []uint64
	most int
}

func newHeap(most int) *heap { return &heap{make([]uint64, most*ExtentSize/8), most} }

func (h *heap) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(h.mem))), len(h.mem)*8)
}

func (h *heap) Extent(i int) ([]byte, error) {
	if i >= h.most {
		return nil, errors.New("full")
	}
	return h.bytes()[i*ExtentSize:][:ExtentSize], nil
}

// newTable returns a table of some extents, and a view of it.
func newTable(t *testing.T, extents int) (*Table, *View) {
	t.Helper()
	h := newHeap(extents)
	table, err := New(h, 8)
	must.Do(t, err)
	table.Publish(&Process{PID: 7})
	v, err := NewView(h.bytes(), 8)
	must.Do(t, err)
	return table, v
}

// TestRowsAreWords shows that rows can be copied a word at a time, and that no process finds an
// address in them: they have no pointers and no padding that a copy would leave.
func TestRowsAreWords(t *testing.T) {
	for _, v := range []any{
		QPInfo{}, QPCounts{}, CQInfo{}, CQCounts{}, MRInfo{}, PDInfo{}, PDCounts{}, SRQInfo{}, CMIDInfo{}, XRCDInfo{}, Process{},
	} {
		typ := reflect.TypeOf(v)
		if typ.Size()%word != 0 {
			t.Errorf("%v has %d bytes, not a number of words", typ, typ.Size())
		}
		var end uintptr
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Offset != end {
				t.Errorf("%v has %d bytes without a name before %s", typ, f.Offset-end, f.Name)
			}
			end = f.Offset + f.Type.Size()
			if k := f.Type.Kind(); k == reflect.Array {
				k = f.Type.Elem().Kind()
				if k < reflect.Uint8 || k > reflect.Uint64 {
					t.Errorf("%v.%s is of kind %v", typ, f.Name, k)
				}
			} else if k < reflect.Int64 || k > reflect.Uint64 {
				t.Errorf("%v.%s is of kind %v", typ, f.Name, k)
			}
		}
		if end != typ.Size() {
			t.Errorf("%v ends with %d bytes without a name", typ, typ.Size()-end)
		}
	}
	if s := unsafe.Sizeof(Header{}); s > BoardAt {
		t.Errorf("the header has %d bytes, room for %d", s, BoardAt)
	}
	if row, counts, at := unsafe.Sizeof(CQ{}), unsafe.Offsetof(CQ{}.Counts), unsafe.Offsetof(CQCounts{}.Consumed); row%64 != 0 || counts%64 != 0 || at%64 != 0 {
		t.Errorf("rows of completion queues have %d bytes, the words that pollers write are at %d+%d; want a line of their own", row, counts, at)
	}
}

// TestObjects adds objects of all kinds, changes and frees some, and reads what is left.
func TestObjects(t *testing.T) {
	table, v := newTable(t, 16)
	a := Add[QPInfo, QPCounts](table, KindQP, &QPInfo{Num: 17, Remote: [16]byte{15: 1}})
	b := Add[QPInfo, QPCounts](table, KindQP, &QPInfo{Num: 18})
	a.Counts.SentBytes, b.Counts.SentBytes = 5, 6
	a.Set(&QPInfo{Num: 17, Peer: 99})
	cq := Add[CQInfo, CQCounts](table, KindCQ, &CQInfo{Num: 1, Depth: 15})
	cq.Counts.Produced, cq.Counts.Consumed = 1<<32+3, 1<<32-2
	pd := Add[PDInfo, PDCounts](table, KindPD, &PDInfo{Num: 3})
	pd.Counts.Users = 2
	Add[MRInfo, NoCounts](table, KindMR, &MRInfo{Num: 4, Length: 4096})
	Add[SRQInfo, NoCounts](table, KindSRQ, &SRQInfo{Num: 5})
	Add[CMIDInfo, NoCounts](table, KindCMID, &CMIDInfo{Num: 6, LocalPort: 7471})
	Add[XRCDInfo, NoCounts](table, KindXRCD, &XRCDInfo{Num: 7})

	qps := slices.Collect(v.QPs())
	if len(qps) != 2 || qps[0].Info != (QPInfo{Num: 17, Peer: 99}) || qps[0].Counts.SentBytes != 5 || qps[1].Counts.SentBytes != 6 {
		t.Errorf("queue pairs are %+v", qps)
	}
	if c := slices.Collect(v.CQs()); len(c) != 1 || c[0].Counts.Waiting() != 5 {
		t.Errorf("completion queues are %+v, want 5 completions that wait", c)
	}
	if p := slices.Collect(v.PDs()); len(p) != 1 || p[0].Counts.Users != 2 {
		t.Errorf("domains are %+v", p)
	}
	if m, s, c, x := slices.Collect(v.MRs()), slices.Collect(v.SRQs()), slices.Collect(v.CMIDs()), slices.Collect(v.XRCDs()); len(m) != 1 ||
		m[0].Info.Length != 4096 || len(s) != 1 || len(c) != 1 || c[0].Info.LocalPort != 7471 || len(x) != 1 || x[0].Info.Num != 7 {
		t.Errorf("%+v, %+v, %+v, %+v", m, s, c, x)
	}

	a.Free()
	a.Counts.SentBytes = 1000 // a late write of the destroyed queue pair
	c := Add[QPInfo, QPCounts](table, KindQP, &QPInfo{Num: 19})
	if qps = slices.Collect(v.QPs()); len(qps) != 2 || qps[0].Info.Num != 19 || qps[0].Counts != (QPCounts{}) {
		t.Errorf("the row of a new object has what was left of the old one: %+v", qps[0])
	}
	c.Free()
	if !b.Shared() || c.Shared() || c.Row == nil {
		t.Error("a freed handle must have a row on the heap")
	}
}

// TestTableIsBounded adds objects until the table is full: the others work without a row that
// readers see, and are counted; freed rows are used again.
func TestTableIsBounded(t *testing.T) {
	table, v := newTable(t, 3)
	var all []Handle[QPInfo, QPCounts]
	room := int(2 * rowsPerExtent(KindQP))
	for i := range room + 2 {
		all = append(all, Add[QPInfo, QPCounts](table, KindQP, &QPInfo{Num: uint32(i)}))
	}
	all[room].Counts.SentBytes++
	if n := len(slices.Collect(v.QPs())); n != room || v.Missing(KindQP) != 2 || all[room].Shared() {
		t.Errorf("%d queue pairs are seen, %d are missing; want %d and 2", n, v.Missing(KindQP), room)
	}
	all[0].Free()
	if again := Add[QPInfo, QPCounts](table, KindQP, &QPInfo{Num: 1}); !again.Shared() {
		t.Error("a freed row is not used again")
	}
	big := newHeap(MaxExtents + 1)
	table, err := New(big, 8)
	must.Do(t, err)
	for table.grow(KindMR) {
	}
	if table.used != MaxExtents {
		t.Errorf("the table has grown to %d extents, want %d", table.used, MaxExtents)
	}
	var none *Table
	if h := Add[PDInfo, PDCounts](none, KindPD, &PDInfo{}); h.Row == nil || h.Shared() {
		t.Error("without a table an object needs a row on the heap")
	}
}

// TestWriterDiedWhileItWrote leaves a row in the middle of a change: the reader leaves it out, and
// does not wait for ever.
func TestWriterDiedWhileItWrote(t *testing.T) {
	table, v := newTable(t, 4)
	h := Add[PDInfo, PDCounts](table, KindPD, &PDInfo{Num: 1})
	h.begin()
	if n := len(slices.Collect(v.PDs())); n != 0 {
		t.Errorf("%d rows are read", n)
	}
	h.Set(&PDInfo{Num: 2})
	if p := slices.Collect(v.PDs()); len(p) != 1 || p[0].Info.Num != 2 {
		t.Errorf("rows are %+v", p)
	}
}

// TestRowsAreNeverTorn reads rows while their objects come and go, and change: all words of an
// identity belong together, also if a row gets another object meanwhile.
func TestRowsAreNeverTorn(t *testing.T) {
	table, v := newTable(t, 8)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var handles [40]Handle[QPInfo, QPCounts]
		for i := uint32(1); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			h := &handles[i%40]
			info := QPInfo{Num: i, Peer: i, PD: i, SendCQ: i, RecvCQ: i, SRQ: i, MaxSend: i, MaxRecv: i}
			switch {
			case h.Row == nil:
				*h = Add[QPInfo, QPCounts](table, KindQP, &info)
			case i%3 == 0:
				h.Free()
				*h = Handle[QPInfo, QPCounts]{}
			default:
				h.Set(&info)
			}
		}
	}()
	seen := 0
	for seen < 20000 {
		for q := range v.QPs() {
			i, n := q.Info, q.Info.Num
			if i != (QPInfo{Num: n, Peer: n, PD: n, SendCQ: n, RecvCQ: n, SRQ: n, MaxSend: n, MaxRecv: n}) {
				t.Fatalf("a row was torn: %+v", i)
			}
			seen++
		}
	}
	close(stop)
	<-done
}

// TestForeignMemory refuses memory that is no table, or one of another layout.
func TestForeignMemory(t *testing.T) {
	h := newHeap(2)
	table, err := New(h, 8)
	must.Do(t, err)
	if _, err := NewView(h.bytes(), 8); !errors.Is(err, ErrLayout) {
		t.Errorf("before Publish: %v", err)
	}
	table.Publish(&Process{PID: 42})
	if _, err := NewView(h.bytes(), 16); !errors.Is(err, ErrLayout) {
		t.Errorf("with other counters: %v", err)
	}
	if _, err := NewView(h.bytes()[:ExtentSize-8], 8); !errors.Is(err, ErrLayout) {
		t.Errorf("too short: %v", err)
	}
	if p, ok := ProcessOf(h.bytes()); !ok || p.PID != 42 {
		t.Errorf("the process is %d, %v", p.PID, ok)
	}
	if _, ok := ProcessOf(h.bytes()[:8]); ok {
		t.Error("memory that is too short has a process")
	}
	if _, ok := ProcessOf(newHeap(1).bytes()); ok {
		t.Error("memory that is no table has a process")
	}
	if _, err := New(h, ExtentSize); err == nil {
		t.Error("counters that have no room are accepted")
	}
}

// TestGarbage has a reader meet numbers that no writer writes.
func TestGarbage(t *testing.T) {
	table, v := newTable(t, 4)
	Add[QPInfo, QPCounts](table, KindQP, &QPInfo{Num: 1})
	table.header.extents.Store(1 << 60)
	for i := range table.header.kinds {
		table.header.kinds[i].Store(uint32(KindCMID))
	}
	table.header.kinds[2].Store(1 << 31)
	if v.Bytes() != MaxExtents*ExtentSize {
		t.Errorf("the table has %d bytes", v.Bytes())
	}
	for range v.CMIDs() {
	}
	for range v.QPs() {
	}
}

func TestBuckets(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want int
	}{{-1, 0}, {0, 0}, {255, 0}, {256, 1}, {511, 1}, {512, 2}, {time.Millisecond, 12}, {time.Second, 22}, {time.Hour, LatencyBuckets - 1}} {
		i := Bucket(c.d)
		if i != c.want {
			t.Errorf("%v is in bucket %d, want %d", c.d, i, c.want)
		}
		if b := BucketBound(i); b >= 0 && c.d >= b {
			t.Errorf("%v is in bucket %d, which ends at %v", c.d, i, b)
		}
	}
	if BucketBound(LatencyBuckets-1) >= 0 {
		t.Error("the last bucket has a bound")
	}
}

func TestKindNames(t *testing.T) {
	if KindCMID.String() != "cm_id" || Kind(99).String() != "kind(99)" {
		t.Errorf("%v, %v", KindCMID, Kind(99))
	}
	if Text([]byte("abc\x00def")) != "abc" || Text([]byte("abc")) != "abc" {
		t.Error("texts end at the first zero")
	}
}

// TestLayoutNumberOfFields shows that two types of one size whose fields differ have different layouts.
func TestLayoutNumberOfFields(t *testing.T) {
	type a struct{ One, Two uint64 }
	type b struct{ Two, One uint64 }
	describe := func(t reflect.Type) string {
		var s strings.Builder
		describeType(&s, t)
		return strings.ReplaceAll(s.String(), t.String(), "")
	}
	if describe(reflect.TypeFor[a]()) == describe(reflect.TypeFor[b]()) {
		t.Error("the order of fields makes no difference")
	}
	first, again := layoutNumber(8), layoutNumber(8)
	if first == layoutNumber(16) || first != again {
		t.Error("the size of the counters makes no difference, or the number is not the same again")
	}
}
