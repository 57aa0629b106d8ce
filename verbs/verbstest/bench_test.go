package verbstest_test

import (
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// BenchmarkSend64B sends messages of 64 bytes, with and without a check.
func BenchmarkSend64B(b *testing.B) {
	b.Run("plain", func(b *testing.B) { benchmarkSend(b, verbs.WithCheck(nil)) })
	b.Run("checked", func(b *testing.B) { benchmarkSend(b, verbs.WithCheck(func(f *verbs.Finding) { b.Error(f) })) })
}

// benchmarkSend keeps one message in flight.
func benchmarkSend(b *testing.B, check verbs.Option) {
	r := newRig(b)
	r.check = check
	r.open(settings{attr: func(a *verbs.QPAttr) { *a = verbs.ConnectionAttr() }})
	recv, send := r.receive(0, 64), r.send(64)
	b.ReportAllocs()
	for b.Loop() {
		must.Do(b, r.b.qp.PostRecv(recv))
		must.Do(b, r.a.qp.PostSend(send))
		r.want(r.a.cq, verbs.WCSuccess)
		r.want(r.b.cq, verbs.WCSuccess)
	}
	r.close()
}
