package metrics

// maxLogged bounds the errors that are logged.
const maxLogged = 100

// readErrors counts tables that could not be read, and logs each error once.
type readErrors struct {
	n      uint64
	logged map[string]bool
	log    func(format string, args ...any)
}

// count takes the error of reading all tables: several joined errors, or nil.
func (e *readErrors) count(err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			e.count(one)
		}
		return
	}
	e.n++
	text := err.Error()
	if e.logged[text] || len(e.logged) >= maxLogged {
		return
	}
	if e.logged == nil {
		e.logged = make(map[string]bool)
	}
	e.logged[text] = true
	e.log("%v", err)
	if len(e.logged) == maxLogged {
		e.log("%d different errors: further ones are only counted", maxLogged)
	}
}
