package verbstest_test

import (
	"fmt"
	"testing"

	"github.com/softhca/softhca/verbs"
	"github.com/softhca/softhca/verbs/verbstest"
)

// A test that opens its adapters with Check fails if it uses the verbs wrongly.
func ExampleCheck() {
	test := func(t testing.TB) { // mostly: func TestX(t *testing.T)
		ctx, err := verbs.Open(verbs.Config{Network: verbs.NewNetwork(), Addr: "10.0.0.1"}, verbstest.Check(t))
		if err != nil {
			t.Fatal(err)
		}
		defer ctx.Close()
		pd, err := ctx.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		if err := pd.Dealloc(); err != nil {
			t.Fatal(err)
		}
		_, err = pd.RegMR(make([]byte, 64), verbs.AccessLocalWrite)
		fmt.Println("RegMR fails:", err != nil)
	}
	t := new(tester)
	test(t)
	t.end()
	fmt.Println("errors of the test:", len(t.errors))
	// Output:
	// RegMR fails: true
	// errors of the test: 1
}
