//go:build linux && cgo

package test

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/golden"
	"github.com/softhca/softhca/internal/must"
)

// errorsPage lists the statuses and events that programs in C see, with their causes.
const errorsPage = "../../docs/errors-in-c.md"

// badResponse is a fault rule that answers a READ as if it were an atomic.
const badResponse = "corrupt byte=0 xor=2 reseal op=RDMA_READ_RESPONSE_ONLY"

// raised are the events that rules raise, in the order of errors.c.
var raised = []string{
	"PORT_ERR", "PORT_ACTIVE", "LID_CHANGE", "PKEY_CHANGE", "SM_CHANGE", "CLIENT_REREGISTER", "GID_CHANGE", "SRQ_ERR", "WQ_FATAL", "DEVICE_FATAL",
}

// failing are the calls that rules let fail, with their error numbers, in the order of
// errors.c.
var failing = [][2]string{
	{"AllocPD", "EACCES"}, {"RegMR", "ENOMEM"}, {"ReregMR", "EPERM"}, {"AdviseMR", "EIO"}, {"DeregMR", "EBUSY"},
	{"AllocMW", "ENOSPC"}, {"DeallocMW", "EAGAIN"}, {"AllocDM", "EACCES"}, {"FreeDM", "EFAULT"}, {"CreateCQ", "ENOSPC"}, {"ResizeCQ", "EIO"}, {"ModifyCQ", "ENODEV"},
	{"ReqNotify", "EACCES"}, {"CreateSRQ", "ENOMEM"}, {"SetSRQLimit", "EPERM"}, {"ResizeSRQ", "EFAULT"}, {"PostSRQRecv", "EAGAIN"}, {"DestroySRQ", "EBUSY"},
	{"OpenXRCDomain", "ENOSPC"}, {"OpenQP", "EACCES"}, {"CloseXRCDomain", "EIO"},
	{"CreateQP", "ENODEV"}, {"ModifyQP", "EFAULT"}, {"QueryQP", "ENOENT"}, {"PostRecv", "ENOMEM"}, {"CreateAH", "EOPNOTSUPP"}, {"PostSend", "EIO"},
	{"AttachMcast", "EACCES"}, {"DetachMcast", "EPERM"}, {"DestroyAH", "EBUSY"}, {"DestroyQP", "EAGAIN"}, {"DestroyCQ", "EINVAL"}, {"DeallocPD", "EFAULT"},
}

const (
	noRD = "reliable datagrams: libibverbs has no calls for them; the Go package `verbs` has"
	noEE = "EE contexts: libibverbs has neither calls nor numbers for them; the Go package `verbs` has"
)

// unseen are the statuses that no program in C sees, with the reasons.
var unseen = map[string]string{
	"LOC_EEC_OP_ERR": noRD, "LOC_RDD_VIOL_ERR": noRD, "REM_INV_RD_REQ_ERR": noRD, "REM_ABORT_ERR": noRD, "INV_EECN_ERR": noRD, "INV_EEC_STATE_ERR": noRD,
	"FATAL_ERR":          "Soft-RoCE reports it for a response of the wrong kind; here that is BAD_RESP_ERR",
	"RESP_TIMEOUT_ERR":   "no transport reports it; the kernel's management agents do",
	"GENERAL_ERR":        "for errors without a status of their own; here every error has one",
	"TM_ERR":             "tag matching is an extension of one vendor",
	"TM_RNDV_INCOMPLETE": "tag matching is an extension of one vendor",
}

// sight is a line that a scenario of errors.c prints, with the rule for it.
type sight struct{ kind, name, who, how, rule string }

// seeErrors runs the scenarios of errors.c. They must show every status and every event of the
// verbs that has a call, and the failure of every call that rules can name.
func seeErrors(t *testing.T, s *stand) {
	var all []sight
	see := func(name string, rules ...string) {
		out, err := s.run(t, name, "SOFTHCA_FAULTS="+strings.Join(rules, "\n"))
		if err != nil || !strings.HasSuffix(out, "ok\n") {
			t.Errorf("%s: %v\n%s", name, err, out)
			return
		}
		all = append(all, sights(out, rules)...)
	}
	see("statuses", badResponse)
	see("events")
	var rules []string
	for i, e := range raised {
		rules = append(rules, fmt.Sprintf("event type=%s op=QueryQP nth=%d", e, i+1))
	}
	see("raised-events", rules...)
	rules = nil
	for _, f := range failing {
		rules = append(rules, fmt.Sprintf("fail op=%s errno=%s nth=1", f[0], f[1]))
	}
	see("failing-calls", rules...)
	if t.Failed() {
		return
	}
	wantAll(t, all)
	for i := range all {
		if all[i].kind == "call" && !all[i].ruled() {
			t.Errorf("%s fails with %q, and that is not what its rule says: %s", all[i].name, all[i].who, all[i].rule)
		}
	}
	golden.Check(t, errorsPage, render(all))
}

// sights parses the output of a scenario. A line's rule is the next rule of the scenario, or
// the rule that the line names.
func sights(out string, rules []string) (all []sight) {
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 {
			continue // a line of the engine's log
		}
		s := sight{kind: f[0], name: f[1], who: f[2], how: f[3]}
		if len(rules) > 0 && (s.kind == "call" || strings.HasPrefix(s.how, "a rule")) {
			s.rule, rules = rules[0], rules[1:]
		}
		all = append(all, s)
	}
	return all
}

// ruled reports whether a call failed with the error number of its rule.
func (s *sight) ruled() bool {
	const last = unix.EHWPOISON
	for e := syscall.Errno(1); e <= last; e++ {
		name := unix.ErrnoName(e)
		if e == unix.EOPNOTSUPP {
			name = "EOPNOTSUPP" // on Linux ENOTSUP has the same number
		}
		if strings.EqualFold(s.who, e.Error()) {
			return strings.Contains(s.rule, " errno="+name+" ")
		}
	}
	return false
}

// TestErrorRuled checks that ruled rejects a call whose rule names another error.
func TestErrorRuled(t *testing.T) {
	s := sight{kind: "call", name: "ibv_alloc_pd", who: "Permission denied", rule: "fail op=AllocPD errno=EACCES nth=1"}
	if !s.ruled() {
		t.Error("a call that fails as its rule says differs from it")
	}
	if s.rule = "fail op=RegMR errno=ENOMEM nth=1"; s.ruled() {
		t.Error("a call fits a rule with another error number")
	}
}

// wantAll fails unless the scenarios have shown each status and event, except those known to be
// unseen, and the failure of each call.
func wantAll(t *testing.T, all []sight) {
	t.Helper()
	saw := func(kind, name string) bool {
		return slices.ContainsFunc(all, func(s sight) bool { return s.kind == kind && s.name == name })
	}
	known := 0
	for s := ib.WCSuccess; !strings.Contains(s.String(), "("); s++ {
		known++
		if why := unseen[s.String()]; saw("status", s.String()) == (why != "") {
			t.Errorf("status %v: seen, or said not to be (%s)", s, why)
		}
	}
	for e := ib.EventCQErr; !strings.Contains(e.String(), "("); e++ {
		known++
		if !saw("event", e.String()) {
			t.Errorf("event %v is not seen", e)
		}
	}
	for _, call := range fault.Calls() {
		ofC := !strings.Contains(call, "EEC") && !strings.Contains(call, "RDD") && !strings.HasPrefix(call, "CM")
		if ofC {
			known++
		}
		if ofC != slices.ContainsFunc(failing, func(f [2]string) bool { return f[0] == call }) {
			t.Errorf("rules know the call %s: is it of libibverbs?", call)
		}
	}
	if got := len(all) + len(unseen); got != known {
		t.Errorf("%d statuses, events and calls, want %d, each once", got, known)
	}
}

const errorsHead = `# Errors that programs in C see

<!-- Generated: go test ./capi/test -run TestD1_Program -rewrite -->

A program under [softhca run](run.md) can get every completion status and asynchronous event for which libibverbs has calls,
after wrong use or by [fault rules](faults.md), and a rule can make each of its calls fail.
[A small program](../capi/test/program/errors.c) over libibverbs got each line.
`

// render returns the page.
func render(all []sight) []byte {
	var b bytes.Buffer
	b.WriteString(errorsHead)
	table := func(kind, head string, row func(s *sight)) {
		fmt.Fprintf(&b, "\n%s\n|---|---|---|\n", head)
		for i := range all {
			if all[i].kind == kind {
				row(&all[i])
			}
		}
	}
	how := func(s *sight) string {
		switch {
		case s.rule == "":
			return s.how
		case s.how == "" || s.how == "a rule":
			return "`" + s.rule + "`"
		default:
			return s.how + ": `" + s.rule + "`"
		}
	}
	table("status", "| completion status | at the | after |", func(s *sight) { fmt.Fprintf(&b, "| %s | %s | %s |\n", s.name, s.who, how(s)) })
	table("event", "| asynchronous event | about | after |", func(s *sight) { fmt.Fprintf(&b, "| %s | %s | %s |\n", s.name, s.who, how(s)) })
	table("call", "| call | fails with | after |", func(s *sight) { fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.name, s.who, how(s)) })
	b.WriteString("\nA program in C never sees these:\n\n| | why not |\n|---|---|\n")
	for s := ib.WCSuccess; !strings.Contains(s.String(), "("); s++ {
		if why := unseen[s.String()]; why != "" {
			fmt.Fprintf(&b, "| status %v | %s |\n", s, why)
		}
	}
	for e := ib.EventCQErr; !strings.Contains(e.String(), "("); e++ {
		if eec := e.OfEEC(); !strings.Contains(eec.String(), "(") {
			fmt.Fprintf(&b, "| event %v | %s |\n", eec, noEE)
		}
	}
	return b.Bytes()
}

// seeTaken opens an adapter on an address that another program has.
func seeTaken(t *testing.T, s *stand) {
	addr := s.addresses(1)
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 4791)))
	must.Do(t, err)
	out, err := s.run(t, "taken", "SOFTHCA_ADDR="+addr)
	if err = errors.Join(err, c.Close()); err != nil || !strings.Contains(out, addr) || !strings.Contains(out, "4791") {
		t.Errorf("an address that is taken: %v, and the program says\n%s", err, out)
	}
}

// seeOtherBuild checks how a program refuses an engine with another interface number.
func seeOtherBuild(t *testing.T, s *stand) {
	other := filepath.Join(t.TempDir(), engineFile)
	must.Do(t, changeABI(filepath.Join(s.dir, engineFile), other))
	out, err := s.run(t, "other-build", "SOFTHCA_ENGINE="+other)
	if err != nil || !strings.Contains(out, "of another build") {
		t.Errorf("an engine of another build: %v, and the program says\n%s", err, out)
	}
}

// seeUnkept runs a program that closes all descriptors without the preload library. Sometimes
// Go's runtime notices before the adapter does, and ends the program with a traceback.
func seeUnkept(t *testing.T, s *stand) {
	var out string
	for range 20 {
		var err error
		out, err = s.run(t, "closes-unkept")
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 1 && strings.Contains(out, "softhca run") && !strings.Contains(out, "goroutine") {
			return
		}
	}
	t.Errorf("a program that closes the adapter's descriptors never ends with what to do, but with\n%s", out)
}

// changeABI copies an engine and changes the number at the beginning of its table of calls.
func changeABI(from, to string) error {
	f, err := elf.Open(from)
	if err != nil {
		return err
	}
	symbols, err := f.DynamicSymbols()
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	at := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "softhca_calls" })
	if at < 0 {
		return errors.New("the engine has no table of calls")
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	for _, p := range f.Progs {
		if offset := symbols[at].Value - p.Vaddr; p.Type == elf.PT_LOAD && symbols[at].Value >= p.Vaddr && offset < p.Filesz {
			text[p.Off+offset]++
			return os.WriteFile(to, text, 0o600)
		}
	}
	return errors.New("the engine's table of calls is not in its file")
}
