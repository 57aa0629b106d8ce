package text

import (
	"slices"
	"strings"
	"testing"
)

func TestLike(t *testing.T) {
	all := []string{"size", "sizes", "json", "iters", "RC_SEND_ONLY", "RC_SEND_FIRST", "RC_SEND_LAST", "RC_SEND_MIDDLE"}
	for word, want := range map[string][]string{
		"szie": {"size"}, "size": {"size", "sizes"}, "jsno": {"json"}, "rc_send_onyl": {"RC_SEND_ONLY", "RC_SEND_LAST"},
		"it": {"iters"}, "rc_": {"RC_SEND_ONLY", "RC_SEND_FIRST", "RC_SEND_LAST"}, "frobnicate": nil, "": nil,
	} {
		if got := Like(word, all); !slices.Equal(got, want) {
			t.Errorf("%q is like %q, want %q", word, got, want)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	if got := DidYouMean("size", "--", []string{"size", "sizes"}); got != "; did you mean --size or --sizes?" {
		t.Error(got)
	}
	if got := DidYouMean("frobnicate", "--", []string{"size"}); got != "" {
		t.Error(got)
	}
}

func TestWant(t *testing.T) {
	many := strings.Fields("mixed clean loss corrupt slow errors lifecycle restart chaos")
	for _, c := range []struct {
		word string
		all  []string
		want string
	}{
		{"upd", []string{"udp", "raw"}, "want udp or raw; did you mean udp?"},
		{"tcp", []string{"udp", "raw"}, "want udp or raw"},
		{"mixd", many, "did you mean mixed?"},
		{"tcp", many, "want mixed, clean, loss, corrupt, slow, errors, lifecycle, restart or chaos"},
	} {
		if got := Want(c.word, c.all); got != c.want {
			t.Errorf("%q: %q, want %q", c.word, got, c.want)
		}
	}
}
