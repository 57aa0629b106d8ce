// Package moved is what the mutants of TestMovedSource are looked for in.
package moved

type one struct{}

type two struct{ one }

func (one) a() {}

func (one) b() {}

func (one) only() {}

var table = [...][2]int{{1, 2}, {3, 4}}

const constant = 1

func first(q one) {
	q.a()
}

func (q one) again() {
	q.a()
}

func (q two) again() {
	q.a()
	q.b()
	q.only()
}

func variadic(n ...int) []int { return n }

func blank(_ int) int { return 1 }

func generic[T any](n T) int { return 1 }
