//go:build linux && cgo

package test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/golden"
	"github.com/softhca/softhca/internal/must"
)

// refusalsPage is generated from refusalsTable.
const (
	refusalsPage  = "../../docs/refusals.md"
	refusalsTable = "testdata/refusals.tsv"
)

// refusal is a row of the table. The program prints its first five columns.
type refusal struct{ function, condition, returns, errno, event, peer, verdict string }

// seen returns the outcome of the call, as the program prints it.
func (r *refusal) seen() string { return strings.Join([]string{r.returns, r.errno, r.event}, ", ") }

// name identifies a row, and the program's line for it.
func (r *refusal) name() string { return r.function + ": " + r.condition }

// infallible are the functions that refuse no call: conversions, functions without arguments
// that could be wrong, and functions that fail only by fault rules.
var infallible = strings.Fields(`
	ibv_ack_async_event ibv_ack_cq_events ibv_alloc_null_mr ibv_alloc_pd ibv_close_device ibv_copy_ah_attr_from_kern ibv_copy_path_rec_from_kern
	ibv_copy_path_rec_to_kern ibv_copy_qp_attr_from_kern ibv_cq_ex_to_cq ibv_dealloc_mw ibv_destroy_ah ibv_dofork_range ibv_dontfork_range
	ibv_end_poll ibv_event_type_str ibv_flow_label_to_udp_sport ibv_fork_init ibv_free_buf ibv_free_device_list ibv_get_device_guid ibv_get_device_index ibv_get_device_list ibv_get_device_name
	ibv_get_sysfs_path ibv_inc_rkey ibv_is_fork_initialized ibv_is_qpt_supported ibv_node_type_str ibv_port_state_str ibv_query_device ibv_query_qp_data_in_order
	ibv_query_srq ibv_rate_to_mbps ibv_rate_to_mult ibv_read_sysfs_file ibv_register_driver ibv_req_notify_cq ibv_unimport_dm ibv_unimport_mr ibv_unimport_pd
	ibv_wc_status_str mbps_to_ibv_rate mult_to_ibv_rate`)

// unreachable are the functions that need an object which no call creates: a DMA handle, a flow,
// a work queue or a counter.
var unreachable = strings.Fields(`
	ibv_attach_counters_point_flow ibv_dealloc_dmah ibv_destroy_comp_cntr ibv_destroy_counters
	ibv_destroy_flow ibv_destroy_flow_action ibv_destroy_rwq_ind_table ibv_destroy_wq ibv_inc_comp_cntr
	ibv_inc_err_comp_cntr ibv_modify_flow_action_esp ibv_modify_wq ibv_post_wq_recv ibv_read_comp_cntr
	ibv_read_counters ibv_read_err_comp_cntr ibv_set_comp_cntr ibv_set_err_comp_cntr`)

// parts are the prefixes of functions whose errors another function reports: ibv_wr_complete
// reports those of a list of requests, and ibv_start_poll those of a poll.
var parts = []string{"ibv_wr_", "ibv_wc_read_"}

// inline are the functions that the header of rdma-core 65 defines. ibv_query_gid_ex,
// ibv_query_gid_table and ibv_query_comp_cntr_caps are left out: they call the functions of the
// library that have the same names with a _ in front.
var inline = strings.Fields(`
	ibv_advise_mr ibv_alloc_dm ibv_alloc_mw ibv_alloc_null_mr ibv_alloc_parent_domain ibv_alloc_td ibv_attach_counters_point_flow ibv_bind_mw
	ibv_close_xrcd ibv_cq_ex_to_cq ibv_create_counters ibv_create_cq_ex ibv_create_flow ibv_create_flow_action_esp ibv_create_qp_ex
	ibv_create_rwq_ind_table ibv_create_srq_ex ibv_create_wq ibv_dealloc_mw ibv_dealloc_td ibv_destroy_counters ibv_destroy_flow
	ibv_destroy_flow_action ibv_destroy_rwq_ind_table ibv_destroy_wq ibv_end_poll ibv_flow_label_to_udp_sport ibv_free_dm ibv_get_srq_num
	ibv_inc_rkey ibv_is_qpt_supported ibv_memcpy_from_dm ibv_memcpy_to_dm ibv_modify_cq ibv_modify_flow_action_esp ibv_modify_qp_rate_limit
	ibv_modify_wq ibv_next_poll ibv_open_qp ibv_open_xrcd ibv_poll_cq ibv_post_recv ibv_post_send ibv_post_srq_ops ibv_post_srq_recv
	ibv_post_wq_recv ibv_query_device_ex ibv_query_rt_values_ex ibv_read_counters ibv_reg_dm_mr ibv_req_notify_cq ibv_start_poll
	ibv_wc_read_byte_len ibv_wc_read_completion_ts ibv_wc_read_completion_wallclock_ns ibv_wc_read_cvlan ibv_wc_read_dlid_path_bits
	ibv_wc_read_flow_tag ibv_wc_read_imm_data ibv_wc_read_invalidated_rkey ibv_wc_read_opcode ibv_wc_read_qp_num ibv_wc_read_sl
	ibv_wc_read_slid ibv_wc_read_src_qp ibv_wc_read_tm_info ibv_wc_read_vendor_err ibv_wc_read_wc_flags ibv_wr_abort ibv_wr_atomic_cmp_swp
	ibv_wr_atomic_fetch_add ibv_wr_atomic_write ibv_wr_bind_mw ibv_wr_complete ibv_wr_flush ibv_wr_local_inv ibv_wr_rdma_read
	ibv_wr_rdma_write ibv_wr_rdma_write_imm ibv_wr_send ibv_wr_send_imm ibv_wr_send_inv ibv_wr_send_tso ibv_wr_set_inline_data
	ibv_wr_set_inline_data_list ibv_wr_set_sge ibv_wr_set_sge_list ibv_wr_set_ud_addr ibv_wr_set_xrc_srqn ibv_wr_start`)

// commands are the commands of /dev/infiniband/rdma_cm.
var commands = strings.Fields(`
	CREATE_ID DESTROY_ID BIND_IP RESOLVE_IP RESOLVE_ROUTE QUERY_ROUTE CONNECT LISTEN ACCEPT REJECT DISCONNECT INIT_QP_ATTR GET_EVENT
	SET_OPTION NOTIFY JOIN_IP_MCAST LEAVE_MCAST MIGRATE_ID QUERY BIND RESOLVE_ADDR JOIN_MCAST`)

// readRefusals reads the table.
func readRefusals(t *testing.T) (all []refusal) {
	t.Helper()
	text, err := os.ReadFile(refusalsTable)
	must.Do(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 7 || slices.Contains(f, "") {
			t.Fatalf("%s: want seven columns: %q", refusalsTable, line)
		}
		r := refusal{f[0], f[1], f[2], f[3], f[4], f[5], f[6]}
		if r.verdict != "same" && !strings.HasPrefix(r.verdict, "differs because ") {
			t.Errorf("%s: the verdict is %q, want same, or differs because", r.name(), r.verdict)
		}
		all = append(all, r)
	}
	return all
}

// seeRefusals checks that each row has a case in the program and each case a row, and that
// each call is refused as its row says.
func seeRefusals(t *testing.T, s *stand) {
	want := readRefusals(t)
	out := seeCases(t, s, "refused", "SOFTHCA_ADDR="+s.addresses(2)+";"+s.addresses(1)) +
		seeCases(t, s, "refused-cm", s.over(t, s.addresses(1))...)
	for _, wrong := range compareRefusals(want, out) {
		t.Error(wrong)
	}
}

// seeCases runs a scenario and returns its output.
func seeCases(t *testing.T, s *stand, name string, env ...string) string {
	t.Helper()
	out, err := s.run(t, name, env...)
	if err != nil || !strings.HasSuffix(out, "ok\n") {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return out
}

// compareRefusals compares rows with the output of the program, and returns the differences.
func compareRefusals(want []refusal, out string) (wrong []string) {
	cases := map[string]string{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 5 {
			continue // a line of the engine's log
		}
		r := refusal{function: f[0], condition: f[1], returns: f[2], errno: f[3], event: f[4]}
		if _, twice := cases[r.name()]; twice {
			wrong = append(wrong, r.name()+": two cases")
		}
		cases[r.name()] = r.seen()
	}
	for i := range want {
		switch have, ok := cases[want[i].name()]; {
		case !ok:
			wrong = append(wrong, want[i].name()+": a row without a case, or two rows")
		case have != want[i].seen():
			wrong = append(wrong, fmt.Sprintf("%s: %s, want %s", want[i].name(), have, want[i].seen()))
		}
		delete(cases, want[i].name())
	}
	for name, have := range cases {
		wrong = append(wrong, fmt.Sprintf("%s: a case without a row: %s", name, have))
	}
	return wrong
}

// TestRefusalsCompared checks that the comparison finds each kind of difference.
func TestRefusalsCompared(t *testing.T) {
	rows := []refusal{{function: "f", condition: "a", returns: "EINVAL", errno: "EINVAL", event: "none"}}
	for out, want := range map[string]int{
		"f\ta\tEINVAL\tEINVAL\tnone\nok\n":                                       0,
		"f\ta\tEINVAL\tkept\tnone\n":                                             1, // errno is not set
		"f\ta\tEINVAL and writes\tEINVAL\tnone\n":                                1,
		"f\ta\tEINVAL\tEINVAL\tCQ error\n":                                       1,
		"ok\n":                                                                   1, // no case
		"f\ta\tEINVAL\tEINVAL\tnone\nf\tb\t0\tkept\tnone\n":                      1, // no row
		"f\ta\tEINVAL\tEINVAL\tnone\nf\ta\tEINVAL\tEINVAL\tnone\n":               1, // two cases
		"f\ta\tEINVAL\tEINVAL\tnone\nf\tb\t0\tkept\tnone\nf\tc\t0\tkept\tnone\n": 2,
	} {
		if wrong := compareRefusals(rows, out); len(wrong) != want {
			t.Errorf("%q: %q, want %d", out, wrong, want)
		}
	}
}

// publicFunctions returns the functions that programs may call: those that the library exports
// under a public version, and those that the header defines.
func publicFunctions(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../libibverbs/libibverbs.map")
	must.Do(t, err)
	public := false
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 2 && f[1] == "{":
			public = strings.HasPrefix(f[0], "IBVERBS_1.")
		case public && len(f) == 1 && strings.HasSuffix(f[0], ";") && f[0] != "*;" && f[0] != "};":
			all = append(all, strings.TrimSuffix(f[0], ";"))
		}
	}
	return append(all, inline...)
}

// TestRefusalsTable checks that each public function that can refuse a call has a row, and
// that the page is up to date.
func TestRefusalsTable(t *testing.T) {
	all := readRefusals(t)
	public := publicFunctions(t)
	for _, name := range public {
		rows := slices.ContainsFunc(all, func(r refusal) bool { return r.function == name })
		part := slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(name, p) })
		if excused := part || slices.Contains(infallible, name) || slices.Contains(unreachable, name); rows == excused && name != "ibv_wr_complete" {
			t.Errorf("%s: want either rows in the table, or the function among the infallible or the unreachable", name)
		}
	}
	for _, name := range slices.Concat(infallible, unreachable) {
		if !slices.Contains(public, name) {
			t.Errorf("%s is not public", name)
		}
	}
	for _, command := range commands {
		if !slices.ContainsFunc(all, func(r refusal) bool { return r.function == "rdma_cm "+command }) {
			t.Errorf("the command %s has no row", command)
		}
	}
	ofCommand := func(r refusal) bool { return strings.HasPrefix(r.function, "rdma_cm") }
	if first := slices.IndexFunc(all, ofCommand); slices.ContainsFunc(all[first:], func(r refusal) bool { return !ofCommand(r) }) {
		t.Error("rows of functions follow those of the commands, which the page says are at the end")
	}
	golden.Check(t, refusalsPage, renderRefusals(all))
}

const refusalsHead = `# Calls that are refused

<!-- Generated: go test ./capi/test -run TestRefusalsTable -rewrite -->

How libibverbs.so.1 refuses calls that a program should not make, and what rdma-core 44 and Linux 6.1 do instead: libibverbs, the
kernel, the provider and driver of Soft-RoCE (rxe), and mlx5 where rxe does not have the operation. Functions that rdma-core 44 does not have
are compared with rdma-core 65. The commands that librdmacm writes to /dev/infiniband/rdma_cm follow at the end. A test makes each of these
calls.

- When a function that returns an error code is refused, ` + "`errno`" + ` is that code. "kept" means that the call does not change errno. If rdma-core
  itself, not the kernel, refuses a call, it does not always set errno.
- Outputs and the fields of public structures (` + "`qp->state`, `cq->cqe`, `mr->addr`, `attr->cap`" + `) are not changed by a refused call.
- ` + "`bad_wr`" + ` names the request that is refused; those before it in the list are posted.
- For errors that completions and events report later, see [another page](errors-in-c.md).
- ` + "`ibv_rereg_mr`" + ` returns -1 for IBV_REREG_MR_ERR_INPUT and -4 for IBV_REREG_MR_ERR_CMD.
`

// renderRefusals returns the page.
func renderRefusals(all []refusal) []byte {
	var b bytes.Buffer
	b.WriteString(refusalsHead)
	same, last := 0, ""
	for i := range all {
		if all[i].verdict == "same" {
			same++
		}
	}
	fmt.Fprintf(&b, "\nOf %d refusals %d are the same.\n", len(all), same)
	b.WriteString("\n| function | when | returns | errno | rdma-core and Linux | |\n|---|---|---|---|---|---|\n")
	for i := range all {
		r, function := &all[i], ""
		if r.function != last {
			function, last = "`"+r.function+"`", r.function
		}
		returns := r.returns
		if r.event != "none" {
			returns += "; event: " + r.event
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", function, r.condition, returns, r.errno, r.peer, r.verdict)
	}
	fmt.Fprintf(&b, "\nThese functions refuse nothing, except by [rules of faults](faults.md): `%s`.\n", strings.Join(infallible, "`, `"))
	fmt.Fprintf(&b, "\nThese functions need an object that no call creates here: `%s`.\n", strings.Join(unreachable, "`, `"))
	b.WriteString("\n`ibv_wr_complete` reports the errors of all `ibv_wr_` functions, and `ibv_start_poll` those of the `ibv_wc_read_` functions.\n")
	return b.Bytes()
}
