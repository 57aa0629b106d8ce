//go:build linux

package check

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/golden"
)

// rdmaVersion is the version of iproute2 whose output the golden file has. Others print other
// attributes.
const rdmaVersion = "iproute2-6.1.0"

// rdmaCommands are commands of iproute2's rdma: each ends, and with the status that it has on the
// kernel.
var rdmaCommands = []string{
	"rdma link", "rdma link show softhca0/1", "rdma -d link", "rdma -jp link", "rdma dev", "rdma -d dev", "rdma dev show softhca0", "rdma -j dev",
	"rdma resource", "rdma -j resource show softhca0", "rdma resource show qp", "rdma -jp resource show qp lqpn 17", "rdma resource show qp link softhca0/1",
	"rdma resource show qp link softhca0/1 lqpn 20", "rdma resource show qp link softhca0/1 lqpn 999", "rdma resource show qp type UC",
	"rdma resource show qp state RTR", "rdma resource show qp pid 1", "rdma -d resource show cq", "rdma resource show cq dev softhca0 cqn 2",
	"rdma resource show mr", "rdma -j resource show mr mrn 1", "rdma resource show pd", "rdma resource show ctx", "rdma -j resource show srq",
	"rdma resource show cm_id", "rdma -j resource show cm_id lqpn 17", "rdma statistic qp show", "rdma -j statistic qp show link softhca0/1 lqpn 17",
	"rdma statistic qp mode", "rdma statistic mode", "rdma statistic mr", "rdma system show", "rdma link show none/1", "rdma -r resource show qp",
	"rdma link add rxe0 type rxe netdev lo",
}

// TestW1_RdmaTool runs iproute2's rdma.
func TestW1_RdmaTool(t *testing.T) {
	addr := newAddr()
	b := newBenchAt(t, addr)
	version, err := exec.Command("rdma", "-V").Output()
	if err != nil {
		// TestW1_NetlinkCalls needs no tool.
		t.Skip(err)
	}
	fill(newTable(t, addr, 0), addr)
	hide := strings.NewReplacer(b.guid, "GUID", strconv.Itoa(os.Getpid()), "PID", addr.String(), "ADDR", "Operation not permitted", "Invalid argument")
	var all strings.Builder
	script := strings.Join(rdmaCommands, "\n")
	out := b.output(t, "sh", "-c", `while read -r c; do echo "\$ $c"; $c 2>&1; echo "status $?"; done <<EOF`+"\n"+script+"\nEOF\n")
	for line := range strings.Lines(out) {
		all.WriteString(strings.TrimRight(hide.Replace(line), " \n") + "\n")
	}
	if strings.Contains(string(version), rdmaVersion) {
		golden.Check(t, "testdata/rdma.golden", all.String())
	} else if n := strings.Count(out, "status 0\n"); n < len(rdmaCommands)-3 {
		t.Errorf("%d commands of %d end with 0:\n%s", n, len(rdmaCommands), out)
	}
}

// TestW1_RdmaStatistic checks that rdma shows each counter as the files of sysfs do.
func TestW1_RdmaStatistic(t *testing.T) {
	b := newBenchAt(t, newAddr())
	if _, err := exec.LookPath("rdma"); err != nil {
		// The test is about what the tool prints.
		t.Skip(err)
	}
	b.board.Engine.RcvdPkts = 1<<63 + 5
	want := b.output(t, "sh", "-c", "cd "+counts+`; echo "$(for c in *; do printf '%s %s ' $c "$(cat $c)"; done)"`)
	got := b.output(t, "rdma", "statistic")
	if want = "link softhca0/1 " + want; strings.TrimSpace(got) != strings.TrimSpace(want) || !strings.Contains(got, "sent_pkts 4711 ") {
		t.Errorf("rdma prints\n%swant\n%s", got, want)
	}
}
