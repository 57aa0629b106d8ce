package verbs

import (
	"errors"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// TestK2_NastyEnvironment checks that adapters of programs in Go heed SOFTHCA_NASTY: the sizes of queues show it.
func TestK2_NastyEnvironment(t *testing.T) {
	larger := func(env string) (n int) {
		t.Setenv(NastyEnv, env)
		c, err := Open(Config{Addr: "10.0.0.1", Network: NewNetwork()})
		must.Do(t, err)
		defer c.Close()
		for range 64 {
			q, err := c.CreateCQ(15, nil)
			must.Do(t, err)
			if q.Cap() > 15 {
				n++
			}
		}
		return n
	}
	if n := larger(""); n != 0 {
		t.Errorf("without the variable, %d queues are larger", n)
	}
	if n := larger("7,without=sizes"); n != 0 {
		t.Errorf("without=sizes: %d queues are larger", n)
	}
	if n := larger("7"); n == 0 || n == 64 {
		t.Errorf("with the variable, %d of 64 queues are larger", n)
	}
	for text, want := range map[string]string{"nasty": `the seed "nasty"`, "7,without=x": `no behaviour "x"`, "without=cm": "the seed is missing"} {
		t.Setenv(NastyEnv, text)
		if _, err := Open(Config{Addr: "10.0.0.1", Network: NewNetwork()}); !errors.Is(err, ib.EINVAL) || !strings.Contains(err.Error(), NastyEnv+` "`+text+`": `) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s=%q: %v", NastyEnv, text, err)
		}
	}
}
