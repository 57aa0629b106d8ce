//go:build !portable

package campaign

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

// order is a command to the other process, one line of JSON.
type order struct {
	Do     string // "open", "renew", "connect", "run", "wait", "exec", "fork", "user", "close"; of a crowd "enter", "introduce", "talk"
	Addr   string // open, enter
	To     address
	Timers timers // connect
	Job    job    // run

	Self, Members int // enter
	All           []address
	Round         uint64
	With          []int // talk: nil means all
}

// answer is the reply to an order.
type answer struct {
	Error     string
	Address   address   // renew
	Addresses []address // enter
	Child     int       // fork
	Traces    traces    // close: what the adapter leaves
}

// leash is a pipe of which the test has the other end. It ends with the test, and with it end the
// children that the other process forks.
const leash = 3

// other carries out the orders of a test.
type other struct {
	side   *side
	to     address
	ended  chan error // of the stream
	before traces
	member *member
}

// serve carries out orders until there are no more.
func serve(in io.Reader, out io.Writer) error {
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	var o other
	for {
		var do order
		if err := dec.Decode(&do); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var a answer
		if err := o.obey(&do, &a); err != nil {
			a.Error = err.Error()
		}
		if err := enc.Encode(&a); err != nil {
			return err
		}
	}
}

// obey carries out an order.
func (o *other) obey(do *order, a *answer) (err error) {
	switch do.Do {
	case "open":
		if err = warm(do.Addr); err == nil {
			o.before = look(os.Getpid())
			o.side, err = openSide(do.Addr)
		}
	case "renew":
		a.Address, err = o.side.renew()
	case "connect":
		o.to = do.To
		err = o.side.connect(&o.to, do.Timers)
	case "run":
		o.ended = make(chan error, 1)
		go func() { o.ended <- o.side.run(&o.to, do.Job) }()
	case "wait":
		err = <-o.ended
	case "exec":
		err = syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	case "user":
		err = becomeStranger()
	case "fork":
		a.Child, err = fork()
	case "close":
		err = errors.Join(o.side.drop(), o.side.ctx.Close())
		a.Traces = awaitTraces(o.before)
	case "enter":
		if o.member, err = enter(do.Addr, do.Self, do.Members); err == nil {
			a.Addresses = o.member.addresses()
		}
	case "introduce":
		err = o.member.introduce(do.All)
	case "talk":
		with := do.With
		if with == nil {
			with = o.member.others()
		}
		err = o.member.talk(do.Round, with)
	default:
		err = fmt.Errorf("order %q", do.Do)
	}
	return err
}

// stranger is the ID of a user without processes.
const stranger = 54321

// becomeStranger makes the process one of another user, whose memory processes of that user may share.
func becomeStranger() error {
	if err := syscall.Setuid(stranger); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
}

// fork forks a child that has copies of all descriptors, without running handlers of fork, and lives
// until the leash ends.
func fork() (pid int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var b byte
	id, errno := clone(&b)
	if errno != 0 {
		return 0, errno
	}
	return int(id), nil
}

// clone returns the process ID of the child. The child has only one thread, so it makes system
// calls and nothing else.
//
//go:norace
//go:nosplit
//go:noinline
func clone(b *byte) (uintptr, syscall.Errno) {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	for {
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, leash, addressOf(b), 1)
		if n == 0 || errno != unix.EINTR {
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
}

// process is the other process of a test.
type process struct {
	cmd   *exec.Cmd
	enc   *json.Encoder
	dec   *json.Decoder
	leash *os.File
}

// start starts another process and opens its adapter.
func start(t *testing.T, addr string) *process {
	t.Helper()
	p := launch(t, here)
	p.tell(t, order{Do: "open", Addr: addr})
	return p
}

// here calls f in the network namespace of the test.
func here(f func() error) error { return f() }

// launch starts another process, where in calls its function.
func launch(t *testing.T, in func(f func() error) error) *process {
	t.Helper()
	end, ours, err := os.Pipe()
	must.Do(t, err)
	p := &process{cmd: exec.Command("/proc/self/exe"), leash: ours}
	t.Cleanup(func() { _ = p.kill() }) // the test may have
	p.cmd.Env = append(os.Environ(), role+"=1")
	p.cmd.Stderr = os.Stderr
	orders, err := p.cmd.StdinPipe()
	must.Do(t, err)
	out, err := p.cmd.StdoutPipe()
	must.Do(t, err)
	p.cmd.ExtraFiles = []*os.File{end}
	must.Do(t, in(p.cmd.Start))
	must.Do(t, end.Close())
	p.enc, p.dec = json.NewEncoder(orders), json.NewDecoder(out)
	return p
}

// tell gives an order and waits until it is carried out.
func (p *process) tell(t *testing.T, o order) answer {
	t.Helper()
	a := p.ask(t, o)
	if a.Error != "" {
		t.Fatalf("process %d, told to %s: %s", p.cmd.Process.Pid, o.Do, a.Error)
	}
	return a
}

// ask is tell for an order that may fail.
func (p *process) ask(t *testing.T, o order) (a answer) {
	t.Helper()
	must.Do(t, p.enc.Encode(&o))
	must.Do(t, p.dec.Decode(&a))
	return a
}

// signal sends a signal. A process that was told to stop has stopped when signal returns.
func (p *process) signal(t *testing.T, s unix.Signal) {
	t.Helper()
	pid := p.cmd.Process.Pid
	must.Do(t, unix.Kill(pid, s))
	if s != unix.SIGSTOP {
		return
	}
	var w unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &w, unix.WUNTRACED, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		must.Do(t, err)
		if !w.Stopped() {
			t.Fatalf("process %d does not stop: status %#x", pid, w)
		}
		return
	}
}

// kill kills the process and waits for its end.
func (p *process) kill() error {
	if p.cmd.Process == nil {
		return p.leash.Close()
	}
	err := p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
	_ = p.leash.Close()
	return err
}

// close ends the process after it has closed its adapter, which must leave nothing.
func (p *process) close(t *testing.T) {
	t.Helper()
	if a := p.tell(t, order{Do: "close"}); a.Traces != (traces{}) {
		t.Errorf("an adapter that is closed leaves %+v in process %d", a.Traces, p.cmd.Process.Pid)
	}
	_ = p.kill()
}

// pair is a connection between the test and the other process.
type pair struct {
	t     *testing.T
	own   *side
	other *process
	to    address
	ended chan error
	waits [2]time.Duration // starved at the beginning of the stream
}

// found describes what both processes have when a stream has failed.
func (p *pair) found() string {
	text := ""
	for i, pid := range []int{os.Getpid(), p.other.cmd.Process.Pid} {
		text += fmt.Sprintf("\nprocess %d: waited %v for a processor; rings %s", pid, starved(pid)-p.waits[i], words(pid))
	}
	// A process that has lost a wake-up never reads what is in its ring; one that waits for a processor does.
	began := time.Now()
	for head := headOf(os.Getpid()); tailOf(p.other.cmd.Process.Pid) < head && time.Since(began) < waitLimit; {
		<-time.After(time.Millisecond)
	}
	text += fmt.Sprintf("\nthe other process has read its ring %v later: %s", time.Since(began), words(p.other.cmd.Process.Pid))
	if all, err := p.own.ctx.Counters(); err == nil {
		text += "\ncounters here:"
		for _, c := range all {
			if c.Value != 0 {
				text += fmt.Sprintf(" %s %d", c.Name, c.Value)
			}
		}
	}
	return text
}

// connect connects new queue pairs of both sides.
func (p *pair) connect(w timers) {
	p.t.Helper()
	own, err := p.own.renew()
	must.Do(p.t, err)
	p.to = p.other.tell(p.t, order{Do: "renew"}).Address
	must.Do(p.t, p.own.connect(&p.to, w))
	p.other.tell(p.t, order{Do: "connect", To: own, Timers: w})
}

// begin connects both sides, and makes them do a job.
func (p *pair) begin(w timers, j job) {
	p.t.Helper()
	p.connect(w)
	p.ended = make(chan error, 1)
	p.waits = [2]time.Duration{starved(os.Getpid()), starved(p.other.cmd.Process.Pid)}
	go func() { p.ended <- p.own.run(&p.to, j) }()
	p.other.tell(p.t, order{Do: "run", Job: j.turned()})
}

// until waits until this side has received n messages.
func (p *pair) until(n uint64) {
	p.t.Helper()
	eventually(p.t, "messages arrive", func() bool {
		select {
		case err := <-p.ended:
			p.t.Fatalf("the stream ends: %v; %s", err, p.found())
		default:
		}
		return p.own.received.Load() >= n
	})
}

// finish waits until both sides have done their job.
func (p *pair) finish() {
	p.t.Helper()
	if err := <-p.ended; err != nil {
		p.t.Fatalf("this side: %v; %s", err, p.found())
	}
	p.other.tell(p.t, order{Do: "wait"})
}

// fails waits until this side gives the other up, for which it may need limit.
func (p *pair) fails(limit time.Duration) {
	p.t.Helper()
	began := time.Now()
	err := <-p.ended
	if !gaveUp(err) {
		p.t.Fatalf("this side: %v, want that it gives the other up", err)
	}
	if took := time.Since(began); took > limit {
		p.t.Errorf("this side gives the other up after %v", took)
	}
}
