//go:build linux && cgo

package test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
)

// TestLockOrder takes locks of libibverbs in several orders. The check that the sanitized
// variants of the library have ends the program for wrong ones.
func TestLockOrder(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no C compiler: install gcc") // nothing can be compiled
	}
	program := filepath.Join(t.TempDir(), "order")
	out, err := exec.Command("gcc", libraries.Dialect, "-Wall", "-Werror", "-DLOCK_ORDER", "-I../libibverbs",
		"-o", program, "order/order.c", "../libibverbs/lock.c", "-lpthread").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	must.Do(t, exec.Command(program, "right").Run())
	for order, want := range map[string]string{
		"wrong":  "takes a lock of rank 8 while the thread holds the ranks 9:",
		"equal":  "takes a lock of rank 9 while the thread holds the ranks 9:",
		"engine": "calls the engine while the thread holds the ranks 8:",
		"unheld": "releases another lock while",
	} {
		out, err := exec.Command(program, order).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %q, want %q", order, err, out, want)
		}
	}
}
