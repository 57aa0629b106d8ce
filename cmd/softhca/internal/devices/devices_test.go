package devices

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

func TestProbe(t *testing.T) {
	d, err := Probe("pair", verbs.Config{Addr: "10.0.0.1,fd00::1", Network: verbs.NewNetwork()})
	must.Do(t, err)
	want := []GID{
		{0, "0000:0000:0000:0000:0000:ffff:0a00:0001", "10.0.0.1"},
		{1, "fd00:0000:0000:0000:0000:0000:0000:0001", "fd00::1"},
	}
	if d.Port.Transport != "pipe" || d.Port.State != "ACTIVE" || !slices.Equal(d.Port.GIDs, want) ||
		!slices.Equal(d.Port.PKeys, []uint16{0xffff}) || d.Port.ActiveMTU != 4096 || d.Attr.MaxQP == 0 {
		t.Errorf("port %+v, limits %+v", d.Port, d.Attr)
	}
	var text strings.Builder
	must.Do(t, Text(&text, []Device{d}, false))
	for _, want := range []string{"hca_id: pair", "node_guid:                 " + d.Attr.NodeGUID.String() + "\n", "active_mtu:            4096\n", "GID[  1]:              fd00", "ICRC check:            full\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "moderation") {
		t.Errorf("abilities without being asked for:\n%s", text.String())
	}
	text.Reset()
	must.Do(t, Text(&text, []Device{d}, true))
	for _, want := range []string{"    CQ moderation:             up to 65535 completions, 4095 µs\n", "    resize of an SRQ:          yes\n", "    resize of a QP:            no\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if b, err := json.Marshal(d); err != nil || !strings.Contains(string(b), `"icrc_ipv4":"full"`) {
		t.Errorf("as JSON: %s, %v", b, err)
	}
}

func TestProbeFails(t *testing.T) {
	d, err := Probe("nowhere", verbs.Config{Addr: "no such interface"})
	if err == nil || d.Error == "" || d.Port != nil {
		t.Errorf("%+v, %v", d, err)
	}
	var text strings.Builder
	if err := Text(&text, []Device{d}, false); err != nil || !strings.Contains(text.String(), "not usable: ") {
		t.Errorf("%s, %v", text.String(), err)
	}
}

func TestNames(t *testing.T) {
	names, err := Names()
	if err != nil || len(names) == 0 {
		t.Errorf("%v, %v", names, err)
	}
}
