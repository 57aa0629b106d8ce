package observe

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/restrack/file"
	"github.com/softhca/softhca/verbs"
)

// TestW1_ReliableDatagramsAreSeen sends a message over an EE context: its row has the peer, the path and
// the counters, and the row of the RD queue pair has neither.
func TestW1_ReliableDatagramsAreSeen(t *testing.T) {
	privately(t)
	var sides [2]*side
	var contexts [2]*verbs.EEC
	const key = 0x1234
	for i, addr := range []string{"127.0.0.91", "127.0.0.92"} {
		s := open(t, addr)
		must.Do(t, s.qp.Destroy())
		domain, err := s.ctx.AllocRDD()
		must.Do(t, err)
		contexts[i], err = domain.CreateEEC()
		must.Do(t, err)
		s.qp, err = s.pd.CreateQP(&verbs.QPInitAttr{
			Type: ib.RD, RDD: domain, SendCQ: s.cq, RecvCQ: s.cq, SQSig: ib.SigAll,
			Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1},
		})
		must.Do(t, err)
		must.Do(t, s.qp.ModifyToRTS(verbs.QPAttr{Port: 1, QKey: key}))
		sides[i] = s
	}
	set := NewSet()
	defer set.Close()
	rows := func(i int) (eec, qp QP) {
		x, y := look(t, set)
		a := []*Adapter{x, y}[i]
		if len(a.QPs) != 2 {
			t.Fatalf("%d rows, want those of a queue pair and an EE context: %+v", len(a.QPs), a.QPs)
		}
		for _, q := range a.QPs {
			if q.Type == ib.EEC {
				eec = q
			} else {
				qp = q
			}
		}
		return eec, qp
	}
	if e, _ := rows(0); e.State != ib.RESET || e.Peer != 0 || e.Remote.IsValid() || e.Num != ib.QPN(contexts[0].EECN()) {
		t.Errorf("a new EE context is %+v", e)
	}
	for i, s := range sides {
		attr := verbs.ConnectionAttr()
		attr.Port, attr.PathMTU, attr.DestQPN = 1, ib.MTU1024, ib.QPN(contexts[1-i].EECN())
		attr.AV = verbs.AHAttr{DGID: sides[1-i].ctx.QueryGID(0), SGIDIndex: uint8(s.ctx.GIDIndex()), HopLimit: 64, Port: 1}
		must.Do(t, contexts[i].ModifyToRTS(attr))
	}
	a, b := sides[0], sides[1]
	must.Do(t, b.qp.PostRecv(verbs.RecvWR{SGList: []verbs.SGE{b.mr.SGE(0, 3000)}}))
	must.Do(t, a.qp.PostSend(verbs.SendWR{
		Opcode: ib.WRSend, SGList: []verbs.SGE{a.mr.SGE(0, 3000)}, EEC: contexts[0], RemoteQPN: b.qp.QPN(), RemoteQKey: key,
	}))
	a.wait(t, 1)
	b.wait(t, 1)
	for i, s := range sides {
		e, q := rows(i)
		there := netip.MustParseAddr([]string{"127.0.0.92", "127.0.0.91"}[i])
		if e.Num != ib.QPN(contexts[i].EECN()) || e.State != ib.RTS || e.Peer != ib.QPN(contexts[1-i].EECN()) || e.Remote != there || e.MTU != ib.MTU1024 ||
			e.SentMessages != uint64(1-i) || e.SentBytes != uint64(3000*(1-i)) || e.RcvdMessages != uint64(i) || e.RcvdBytes != uint64(3000*i) {
			t.Errorf("EE context %d is %+v", i, e)
		}
		if q.Num != s.qp.QPN() || q.Type != ib.RD || q.State != ib.RTS || q.Peer != 0 || q.Remote.IsValid() || q.MaxSend != 16 || q.SendCQ == 0 || q.PD == 0 ||
			q.SentMessages != 0 || q.RcvdMessages != 0 {
			t.Errorf("RD queue pair %d is %+v", i, q)
		}
	}
	must.Do(t, errors.Join(a.qp.Destroy(), contexts[0].Destroy()))
	if x, _ := look(t, set); len(x.QPs) != 0 {
		t.Errorf("destroyed ones are seen: %+v", x.QPs)
	}
}

// fullEnv makes the test binary mount small file systems.
const fullEnv = "SOFTHCA_TEST_FULL"

// TestW1_FullFileSystem opens adapters in file systems that are full. They work, without a table, or with a
// table that counts the objects for which it has no row.
func TestW1_FullFileSystem(t *testing.T) {
	if os.Getenv(fullEnv) != "" {
		fullFileSystem(t)
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestW1_FullFileSystem$")
	cmd.Env = append(os.Environ(), fullEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		// Containers and hardened kernels forbid user namespaces.
		t.Skipf("no user namespace: %v", err)
	}
	if err != nil {
		t.Errorf("%v, %s", err, out)
	}
}

func fullFileSystem(t *testing.T) {
	const extents = 3 // the header, and two kinds
	dir := t.TempDir()
	mount := func(name string, size int) string {
		at := filepath.Join(dir, name)
		must.Do(t, os.Mkdir(at, 0o700))
		must.Do(t, unix.Mount("none", at, "tmpfs", 0, fmt.Sprintf("size=%d", size)))
		t.Cleanup(func() { must.Do(t, unix.Unmount(at, unix.MNT_DETACH)) })
		t.Setenv(file.DirVariable, at)
		return at
	}
	mount("small", extents*16<<10)
	works := func(addr string) *side {
		s := open(t, addr) // PD, CQ, MR, QP
		e, err := s.qp.Endpoint(ib.NewPSN(1), s.ctx.GIDIndex())
		must.Do(t, err)
		must.Do(t, s.qp.Connect(e, e, verbs.ConnectionAttr()))
		must.Do(t, s.qp.PostRecv(verbs.RecvWR{SGList: []verbs.SGE{s.mr.SGE(0, 8)}}))
		must.Do(t, s.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, SGList: []verbs.SGE{s.mr.SGE(8, 8)}}))
		for _, wc := range s.wait(t, 2) {
			if wc.Status != ib.WCSuccess {
				t.Errorf("a message completes with %v", wc.Status)
			}
		}
		return s
	}
	s := works("127.0.0.91")
	set := NewSet()
	defer set.Close()
	all, err := set.Read()
	must.Do(t, err)
	if a := all[0]; len(a.PDs) != 1 || len(a.CQs) != 1 || len(a.MRs) != 0 || len(a.QPs) != 0 || a.Missing["mr"] != 1 || a.Missing["qp"] != 1 || len(a.Missing) != 2 || a.Counters.SentPkts == 0 {
		t.Errorf("the table shows %d domains, %d completion queues, %d regions, %d queue pairs, lacks %v", len(a.PDs), len(a.CQs), len(a.MRs), len(a.QPs), a.Missing)
	}
	must.Do(t, s.ctx.Close())
	none := mount("none", 4096)
	works("127.0.0.92")
	if left, err := os.ReadDir(none); err != nil || len(left) != 0 {
		t.Errorf("on a file system without room %v is left, %v", left, err)
	}
}
