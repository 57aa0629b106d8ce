//go:build linux

package main

import (
	"slices"
	"testing"
)

// TestOutcomes reads what unittest prints of tests: with and without a description, with
// output of the test itself, and with an error that is expected.
func TestOutcomes(t *testing.T) {
	const out = `test_create_ah (tests.test_addr.AHTest.test_create_ah)
Test ibv_create_ah. ... ok
test_cq_events_ud (tests.test_cq_events.CqEventsTestCase.test_cq_events_ud) ... ok
test_is_fork_initialized (tests.test_fork.ForkAPITest.test_is_fork_initialized) ... is_fork_initialized() = 2
ok
test_tm_rndv (tests.test_tag_matching.TMTest.test_tm_rndv)
Test rendezvous Tag Matching traffic, ... skipped 'Extended CQ is not supported'
test_dm (tests.test_device.DMTest.test_dm) ... skipped "the device's memory"
test_rdmacm_async_resolve_addrinfo (tests.test_rdmacm.CMTestCase.test_rdmacm_async_resolve_addrinfo) ... Player passive got: Failed to Resolve AddrInfo
Player active got: Failed to Resolve AddrInfo
ERROR
test_rdmacm_sync_traffic (tests.test_rdmacm.CMTestCase.test_rdmacm_sync_traffic) ... Traceback (most recent call last):
  File "mr.pyx", line 143, in pyverbs.mr.MR.close
pyverbs.pyverbs_error.PyverbsRDMAError: Failed to dereg MR. Errno: 5, Input/output error
Exception ignored in: 'pyverbs.mr.MR.__dealloc__'
Traceback (most recent call last):
ok
test_reg_mr (tests.test_mr.MRTest.test_reg_mr)
Test ibv_reg_mr() ... FAIL

======================================================================
ERROR: test_reg_mr (tests.test_mr.MRTest.test_reg_mr)
FAILED (failures=1, skipped=32)
`
	passed, skipped, failed := outcomes(out)
	want := []string{
		"test_device.DMTest.test_dm\tthe device's memory",
		"test_rdmacm.CMTestCase.test_rdmacm_async_resolve_addrinfo\t" + refused["test_rdmacm.CMTestCase.test_rdmacm_async_resolve_addrinfo"],
		"test_tag_matching.TMTest.test_tm_rndv\tExtended CQ is not supported",
	}
	if passed != 4 || !slices.Equal(skipped, want) || !slices.Equal(failed, []string{"test_mr.MRTest.test_reg_mr"}) {
		t.Errorf("%d passed, skipped %q, failed %q", passed, skipped, failed)
	}
}
