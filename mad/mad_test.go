package mad

import "testing"

// TestC12_Unsupported shows that the answer to an unsupported request is the
// request except for method and status.
func TestC12_Unsupported(t *testing.T) {
	req := MAD{200: 0xaa, 255: 0xbb}
	req.PutHeader(Header{
		BaseVersion: BaseVersion, Class: ClassPerf, ClassVersion: 1, Method: MethodSet, Status: 0x1234,
		ClassSpecific: 5, TID: 0x0123456789abcdef, AttrID: 0x15, AttrMod: 7,
	})
	resp := Unsupported(&req, StatusUnsupportedAttribute)
	want := req
	want[3], want[4], want[5] = byte(MethodGetResp), 0, 0x0c
	if resp != want {
		t.Errorf("the answer is\n% x, want\n% x", resp, want)
	}
	if h := req.Header(); h.Method != MethodSet || h.Status != 0x1234 {
		t.Errorf("the request has become %+v", h)
	}
}
