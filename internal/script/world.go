package script

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/virtual"
)

// world is one adapter, its objects and connections, and the log of the step.
// The script plays the peer.
type world struct {
	virtual.Adapter
	caps    fabric.Caps
	migReq  bool
	blocked bool // the network takes nothing: nothing is transmitted

	registry
	connections *connections
	writing     []qp.WriteBack // not ended yet, the oldest first
	rec         *recorder      // nil unless Follow runs the script
	log
}

func newWorld(rec *recorder) *world {
	w := &world{rec: rec}
	w.connections = &connections{world: w}
	return w
}

// registry holds the two sides' addresses, and the objects of the adapter by
// name.
type registry struct {
	local   netip.Addr
	peer    netip.Addr
	objects map[string]any
	mrs     []*region
	cqs     []*queue
	qps     []*pair
	eecs    []*pair
	srqns   []ib.SRQN // of XRC
	gsi     pair      // stands for the adapter's own QP1
}

type (
	domain struct{ pd *hca.PD }

	region struct {
		name string
		pd   *hca.PD
		mr   *memory.Region
		buf  []byte
		last []byte // the content last shown; nil for a quiet region
	}

	queue struct {
		name    string
		cq      *qp.CQ
		manual  bool          // polled only by poll commands
		timed   bool          // its entries hold their times
		waiting int           // entries as of the last step
		at      clock.Instant // time of the entry polled last, if timed
	}

	sharedQueue struct {
		name string
		pd   *hca.PD
		srq  *qp.SRQ
	}

	handle struct {
		pd *hca.PD
		ah ib.AHHandle
	}

	window struct {
		pd *hca.PD
		mw *memory.Window
	}

	domainRD  struct{ rdd *qp.RDD }
	domainXRC struct{ xrcd *qp.XRCD }
	pair      struct {
		*qp.QP          // nil: the adapter's own QP1, or
		eec     *qp.EEC // an EE context
		name    string
		pd      *hca.PD
		sendCQ  *queue
		recvCQ  *queue
		gone    bool
		attr    ib.QPAttr // defaults for attributes that the script does not give
		peerPSN ib.PSN    // of the next request of the peer
		sent    ib.PSN    // last PSN of the last request
		isSent  bool
	}
)

// Defaults of a script.
const (
	peerPSN   = 100 // first PSN of the peer
	localPSN  = 200 // first PSN of the adapter
	peerQPN   = 0x777700
	peerEEC   = 0x555500
	peerSRQN  = 0x666601 // shared receive queue of the peer's XRC
	peerKey   = 0x777    // rkey of the peer's memory
	peerAddr  = 0x10000
	qkey      = 0x11111111
	usualCQ   = "cq"
	batchSize = 256 << 10
	minBatch  = 4096 + 64 // the room that a shard needs to begin with a queue pair
)

// maxBytes bounds what a script may allocate at once.
const maxBytes = 64 << 20

// perform carries out the commands of a step and collects their output. A panic
// of the engine becomes an error of the step.
func (w *world) perform(s *step) (err error) {
	var c command
	defer func() {
		if r := recover(); r != nil {
			err = s.file.fail(c.line, c.text, fmt.Errorf("the engine panicked: %v", r))
		}
	}()
	w.rec.begin(s)
	for _, c = range s.commands {
		if err := w.command(c.text); err != nil {
			return s.file.fail(c.line, c.text, err)
		}
	}
	if w.HCA != nil {
		w.settle()
		w.flush()
		w.showMemory()
		w.showCounters()
	}
	s.got = w.take()
	w.rec.end(w, s)
	return nil
}

// command carries out one line.
func (w *world) command(line string) error {
	words, err := splitWords(line)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return errors.New("want a command after &")
	}
	verb := words[0]
	w.cause = verb
	if w.HCA == nil && verb != "adapter" {
		if err := w.open(newArgs(w, nil)); err != nil {
			return err
		}
	}
	if verb[0] == '+' {
		w.cause = "timer"
		return w.pass(verb[1:], newArgs(w, words[1:]))
	}
	var known []string
	for _, v := range verbs {
		if v.name == verb {
			a, before := newArgs(w, words[1:]), w.rec.steps()
			if err := v.do(w, a); err != nil {
				return err
			}
			w.rec.own(before, words)
			return a.done()
		}
		known = append(known, v.name)
	}
	return fmt.Errorf("there is no command %s%s", verb, hint(verb, known))
}

// verbs are the commands. Each takes its words and returns an error if they are
// wrong; a refusal by the adapter is output, not an error.
var verbs = [...]struct {
	name string
	do   func(*world, *args) error
}{
	{"adapter", (*world).open}, {"pd", (*world).addPD}, {"mr", (*world).addMR}, {"mw", (*world).addMW}, {"cq", (*world).addCQ},
	{"rdd", (*world).addRDD}, {"xrcd", (*world).addXRCD}, {"eec", (*world).addEEC}, {"srq", (*world).addSRQ}, {"ah", (*world).addAH}, {"qp", (*world).addQP},
	{"dereg", of("a region", (*world).dereg)}, {"rereg", of("a region", (*world).rereg)}, {"destroy", (*world).destroy},
	{"resize", (*world).resize}, {"moderate", of("a completion queue", (*world).moderate)}, {"limit", of("a shared receive queue", (*world).limit)},
	{"modify", of("a queue pair", (*world).modify)}, {"walk", of("a queue pair", (*world).walk)}, {"query", of("a queue pair", (*world).query)},
	{"post", ofQP((*world).post)}, {"recv", (*world).recv}, {"<", (*world).inject},
	{"poll", of("a completion queue", (*world).poll)}, {"arm", of("a completion queue", (*world).arm)},
	{"fill", (*world).fill}, {"dump", (*world).dump}, {"written", (*world).written},
	{"net", (*world).net}, {"address", (*world).address}, {"rate", ofQP((*world).rate)}, {"batch", (*world).setBatch}, {"transmit", transmit},
	{"deadline", of("a queue pair", (*world).deadline)}, {"counters", (*world).showTotals},
	{"conn", connected((*connections).addConn)}, {"listen", connected((*connections).addListener)}, {"conns", connected((*connections).showConns)},
	{"connect", called((*connections).connect)}, {"accept", called((*connections).accept)}, {"rtu", called((*connections).rtu)}, {"reject", called((*connections).reject)},
	{"mra", called((*connections).mra)}, {"prepare_mra", called((*connections).prepareMRA)}, {"establish", called((*connections).establishConn)},
	{"dreq", called((*connections).dreq)}, {"drep", called((*connections).drep)}, {"move", called((*connections).move)},
	{"lap", called((*connections).loadPath)}, {"apr", called((*connections).answerPath)}, {"load", called((*connections).load)},
	{"alternate", called((*connections).alternate)}, {"channel", connected((*connections).showChannel)},
	{"sidr", called((*connections).resolve)}, {"sidr_answer", called((*connections).resolved)},
}

// of is the command of a verb whose first word names an object.
func of[T any](what string, do func(*world, T, *args) error) func(*world, *args) error {
	return func(w *world, a *args) error {
		v, err := named[T](&w.registry, a, what)
		if err != nil {
			return err
		}
		return do(w, v, a)
	}
}

// ofQP is the command of a verb of a queue pair that is no EE context.
func ofQP(do func(*world, *pair, *args) error) func(*world, *args) error {
	return of("a queue pair", func(w *world, q *pair, a *args) error {
		if q.eec != nil {
			return fmt.Errorf("%s is an EE context: want a queue pair", q.name)
		}
		return do(w, q, a)
	})
}

// called is the command of a verb of the consumer of a connection.
func called(do func(*connections, *connection, *args) error) func(*world, *args) error {
	return func(w *world, a *args) error {
		c, err := w.connections.caller(a)
		if err != nil {
			return err
		}
		return do(w.connections, c, a)
	}
}

// connected is the command of a verb of connections.
func connected(do func(*connections, *args) error) func(*world, *args) error {
	return func(w *world, a *args) error { return do(w.connections, a) }
}

// find returns the object of a kind with a name.
func find[T any](r *registry, name string) (v T, err error) {
	if v, ok := r.objects[name].(T); ok {
		return v, nil
	}
	var known []string
	for n, o := range r.objects {
		if _, ok := o.(T); ok {
			known = append(known, n)
		}
	}
	kind := strings.TrimPrefix(fmt.Sprintf("%T", v), "*script.")
	return v, fmt.Errorf("there is no %s called %q%s", kind, name, hint(name, known))
}

// named takes the name of an object from the words.
func named[T any](r *registry, a *args, what string) (v T, err error) {
	name := a.word(what)
	if a.err != nil {
		return v, a.err
	}
	return find[T](r, name)
}

// add gives an object its name.
func (r *registry) add(name string, o any) error {
	switch {
	case name == "" || strings.ContainsAny(name, "+-^:=,&") || name[0] >= '0' && name[0] <= '9':
		return fmt.Errorf("%q is no name for an object", name)
	case r.objects[name] != nil:
		return fmt.Errorf("%s exists", name)
	}
	r.objects[name] = o
	return nil
}

// created gives a new object its name, unless the adapter refused it.
func (w *world) created(name string, o any, err error) error {
	if err != nil {
		return w.outcome(err)
	}
	return w.add(name, o)
}

// refused shows that the adapter refused a command.
func (w *world) refused(err error) {
	w.say("refused: %v", err)
	w.rec.refused()
}

// open makes the adapter with a protection domain pd and a completion queue
// cq.
func (w *world) open(a *args) error {
	if w.HCA != nil {
		return fmt.Errorf("the adapter exists: this command comes first")
	}
	w.local, w.peer = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	if a.flag("v6") {
		w.local, w.peer = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	}
	w.local, w.peer = a.addr("addr", w.local), a.addr("peer", w.peer)
	addrs := []netip.Addr{w.local}
	if a.has("addr2") {
		addrs = append(addrs, a.addr("addr2", w.local))
	}
	w.caps = virtual.Caps(addrs...)
	w.caps.MTU = int(a.num("mtu", uint64(w.caps.MTU), plainNumber))
	w.migReq = a.boolean("migreq", true)
	src := rand.New(rand.NewPCG(1, 7))
	cfg := hca.Config{
		Caps: w.caps, Rand: src.Uint32, NodeGUID: 0x02665610fb91e93a, Raise: w.raise, Trace: w.trace, Limits: limits(a),
		Settings: qp.Settings{
			MigReq: w.migReq, Credits: a.flag("credits"), InOrderOnly: a.flag("inorder"), FatalEvents: a.flag("fatal_events"), NoChallenge: !a.flag("challenge"),
			WindowBytes: int(a.num("window", 0, plainNumber)),
		},
		Privileged: a.flag("privileged"), Connections: cm.DefaultLimits(), WriteBack: w.writeBack,
	}
	for _, f := range [...]struct {
		key string
		v   *int
	}{
		{"max_conns", &cfg.Connections.MaxConns}, {"max_half_open", &cfg.Connections.MaxHalfOpen},
		{"max_listeners", &cfg.Connections.MaxListeners},
	} {
		*f.v = int(a.small(f.key, uint64(*f.v), 31))
	}
	for _, s := range strings.FieldsFunc(a.str("pkeys", ""), func(r rune) bool { return r == ',' }) {
		v, err := parseNumber(s)
		if err != nil {
			return err
		}
		cfg.PKeys = append(cfg.PKeys, ib.PKey(v))
	}
	if a.err != nil {
		return a.err
	}
	if err := w.Open(cfg, batchSize); err != nil {
		return err
	}
	w.objects = map[string]any{}
	w.gsi = pair{name: gsiName, attr: ib.QPAttr{QKey: ib.QKeyGSI, DestQPN: ib.QPNGSI}}
	w.objects["pd"] = &domain{w.PD}
	return w.newCQ(&queue{name: usualCQ}, 1024)
}

// limits takes the limits of the adapter.
func limits(a *args) hca.Limits {
	l := hca.DefaultLimits()
	for _, f := range [...]struct {
		key string
		v   *int
	}{
		{"max_qp", &l.MaxQP}, {"max_cq", &l.MaxCQ}, {"max_srq", &l.MaxSRQ}, {"max_mr", &l.MaxMR}, {"max_mw", &l.MaxMW},
		{"max_pd", &l.MaxPD}, {"max_ah", &l.MaxAH}, {"max_rdd", &l.MaxRDD}, {"max_eec", &l.MaxEEC}, {"max_xrcd", &l.MaxXRCD},
	} {
		*f.v = int(a.num(f.key, uint64(*f.v), plainNumber))
	}
	for _, f := range [...]struct {
		key string
		v   *uint32
	}{
		{"max_qp_wr", &l.MaxQPWR}, {"max_sge", &l.MaxSGE}, {"max_inline", &l.MaxInlineData},
		{"max_cqe", &l.MaxCQE}, {"max_srq_wr", &l.MaxSRQWR},
	} {
		*f.v = uint32(a.small(f.key, uint64(*f.v), 32))
	}
	l.MaxRDAtomic = uint8(a.small("max_rd_atomic", uint64(l.MaxRDAtomic), 8))
	return l
}
