package ib

import (
	"errors"
	"strings"
	"testing"
)

func TestSuccessIsNoError(t *testing.T) {
	if err := (WC{WRID: 7, QPN: 0x11}).Err(); err != nil {
		t.Errorf("a completion with SUCCESS has the error %v", err)
	}
}

// TestErrorOfACompletion shows that the error says which work request failed and
// how, and that programs find the status in it, wrapped or not.
func TestErrorOfACompletion(t *testing.T) {
	err := WC{WRID: 7, Status: WCRetryExcErr, VendorErr: 0x81, QPN: 0x11}.Err()
	const front = "work request 7 of QP 0x000011: RETRY_EXC_ERR (vendor error 0x81): the peer acknowledged nothing"
	if !strings.HasPrefix(err.Error(), front) {
		t.Errorf("the error is %q, want it to begin with %q", err, front)
	}
	wrapped := errors.Join(errors.New("write the log"), err)
	if !errors.Is(wrapped, WCRetryExcErr) || errors.Is(wrapped, WCWRFlushErr) {
		t.Error("errors.Is does not find the status")
	}
	var status WCStatus
	if !errors.As(wrapped, &status) || status != WCRetryExcErr {
		t.Errorf("errors.As finds the status %v", status)
	}
	var e WCError
	if !errors.As(wrapped, &e) || e != (WCError{7, WCRetryExcErr, 0x81, 0x11}) {
		t.Errorf("errors.As finds %+v", e)
	}
}

// TestEveryStatusHasWords goes over all statuses but those of tag matching,
// which no request here can end with.
func TestEveryStatusHasWords(t *testing.T) {
	seen := map[string]WCStatus{}
	for s := WCLocLenErr; s < WCTMErr; s++ {
		_, words, _ := strings.Cut(WC{Status: s}.Err().Error(), s.String()+": ")
		if means, look, _ := strings.Cut(words, "; "); means == "" || look == "" {
			t.Errorf("%v: %q does not say both what it means and what to look at", s, words)
		}
		if other, ok := seen[words]; ok {
			t.Errorf("%v and %v have the same words", other, s)
		}
		seen[words] = s
	}
	for _, s := range []WCStatus{WCTMErr, WCTMRndvIncomplete, WCStatus(24), WCStatus(255)} {
		if got, want := (WC{Status: s}).Err().Error(), "work request 0 of QP 0x000000: "+s.String(); got != want {
			t.Errorf("a status without words reads %q, want %q", got, want)
		}
	}
}
