package identity

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestGUID shows what the GUID depends on: secret, address and slot, but not
// how the address is written. It has the bit of those that no registry gave.
func TestGUID(t *testing.T) {
	seen := map[uint64]string{}
	for _, s := range []Secret{{}, {1}, {31: 1}} {
		for _, a := range []string{"10.0.0.1", "10.0.0.2", "fd00::1", "::ffff:0:1"} {
			for slot := range uint8(2) {
				addr := netip.MustParseAddr(a)
				g := s.GUID(addr, slot)
				if other, taken := seen[g]; taken || g>>56 != 2 {
					t.Errorf("the GUID of %s with slot %d is %#x, as that of %s", a, slot, g, other)
				}
				seen[g] = a
				if same := netip.AddrFrom16(addr.As16()).WithZone("eth0"); s.GUID(same, slot) != g {
					t.Errorf("%v and %v have two GUIDs", addr, same)
				}
			}
		}
	}
	// By openssl dgst -sha256 -mac HMAC: a GUID must not change with a release.
	if got := new(Secret).GUID(netip.MustParseAddr("10.0.0.1"), 5); got != 0x20b523bf707d824 {
		t.Errorf("the GUID of 10.0.0.1 with slot 5 is %#x", got)
	}
}

// TestName shows that the name of a socket depends on the secret and the address, not on how
// the address is written, and says nothing of the GUID.
func TestName(t *testing.T) {
	seen := map[string]string{}
	for _, s := range []Secret{{}, {1}, {31: 1}} {
		for _, a := range []string{"10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"} {
			addr := netip.MustParseAddr(a)
			name := s.Name(addr)
			if other, taken := seen[name]; taken || len(name) != 32 || strings.Trim(name, "0123456789abcdef") != "" {
				t.Errorf("the name of %s is %q, that of %s", a, name, other)
			}
			seen[name] = a
			if same := netip.AddrFrom16(addr.As16()).WithZone("eth0"); s.Name(same) != name {
				t.Errorf("%v and %v have two names", addr, same)
			}
			for slot := range 256 {
				if g := s.GUID(addr, uint8(slot)); strings.HasPrefix(name, fmt.Sprintf("%016x", g)[2:]) {
					t.Errorf("the name %s of %s tells the GUID %#x", name, a, g)
				}
			}
		}
	}
	// By openssl dgst -sha256 -mac HMAC: processes of two releases must find each other.
	if got := new(Secret).Name(netip.MustParseAddr("10.0.0.1")); got != "40adbbc1b5ca995ddec3f57e683fe739" {
		t.Errorf("the name of 10.0.0.1 is %q", got)
	}
}

// TestRestart shows that the next process of the user has the same secret, that
// another user has another one, and that no other user may read it.
func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "softhca")
	first, err := load(dir)
	must.Do(t, err)
	if again, err := load(dir); again != first || err != nil {
		t.Errorf("the second process has another secret (%v)", err)
	}
	if other, err := load(t.TempDir()); other == first || err != nil {
		t.Errorf("two users have the same secret (%v)", err)
	}
	info, err := os.Stat(filepath.Join(dir, "secret"))
	must.Do(t, err)
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode != 0o600 {
		t.Errorf("the secret has mode %v", mode)
	}
	if info, err = os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode != 0o700 {
		t.Errorf("the secret's directory has mode %v", mode)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("files are left: %v", files)
	}
}

// TestLoadAtOnce starts many at once where there is no secret: all get the same.
func TestLoadAtOnce(t *testing.T) {
	for range 50 {
		dir := filepath.Join(t.TempDir(), "softhca")
		var got [16]Secret
		var errs [len(got)]error
		var all sync.WaitGroup
		begin := make(chan struct{})
		for i := range got {
			all.Go(func() {
				<-begin
				got[i], errs[i] = load(dir)
			})
		}
		close(begin)
		all.Wait()
		for i := range got {
			if got[i] != got[0] || errs[i] != nil || got[i] == (Secret{}) {
				t.Fatalf("%d: another secret than the first's (%v)", i, errs[i])
			}
		}
	}
}

// TestNowhere shows that a process without a place for its secret has one all
// the same, which stays, and that a damaged one is neither used nor replaced.
func TestNowhere(t *testing.T) {
	dir := t.TempDir()
	s, kept := OfUser("")
	if again, _ := OfUser(""); s == (Secret{}) || s != again {
		t.Error("a process without a home has no secret that stays")
	}
	if kept {
		t.Error("a secret that is nowhere is kept")
	}
	if _, kept := OfUser(filepath.Join(dir, "home")); !kept {
		t.Error("a secret in the user's home is not kept")
	}
	name := filepath.Join(dir, "secret")
	must.Do(t, os.WriteFile(name, []byte("short"), 0o600))
	if _, err := load(dir); err == nil {
		t.Error("a damaged secret is used")
	}
	if _, err := load(name); err == nil { // a file in place of the directory
		t.Error("a secret is kept where no file can be")
	}
}
