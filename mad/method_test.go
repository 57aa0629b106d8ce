package mad

import "testing"

func TestC12_MethodResponse(t *testing.T) {
	responses := map[Method]Method{
		MethodGet: MethodGetResp, MethodSet: MethodGetResp, MethodTrap: MethodTrapRepress, MethodReport: MethodReportResp,
	}
	for v := range 256 {
		m := Method(v)
		if got := m.Response(); got != responses[m] {
			t.Errorf("%v is answered by %v, want %v", m, got, responses[m])
		}
		if r := m.Response(); r != 0 && (!r.IsResponse() || r.Response() != 0 || m.IsResponse()) {
			t.Errorf("%v, the answer to %v, is no answer or has one", r, m)
		}
		if got, want := m.IsResponse(), v >= 0x80 || v == 7; got != want {
			t.Errorf("%v is a response: %v, want %v", m, got, want)
		}
	}
}
