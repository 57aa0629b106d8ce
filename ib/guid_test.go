package ib

import (
	"encoding/json"
	"testing"
)

func TestGUID(t *testing.T) {
	for g, want := range map[GUID]string{
		0x505400fffe770002: "5054:00ff:fe77:0002",
		0x0200000000000001: "0200:0000:0000:0001",
		0:                  "0000:0000:0000:0000",
	} {
		if g.String() != want {
			t.Errorf("%#x prints as %q, want %q", uint64(g), g, want)
		}
		if b, err := json.Marshal(g); err != nil || string(b) != `"`+want+`"` {
			t.Errorf("%#x is %s in JSON, %v", uint64(g), b, err)
		}
	}
}
