package explain

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/internal/pcapfile/runs"
	"github.com/softhca/softhca/internal/printable"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// Config limits the memory of a Follower. A zero field means its default.
type Config struct {
	Conversations int        // maximum alive at once; a new one ends the one with the longest silence
	Kept          int        // maximum conversations with findings listed in the report
	Packets       int        // maximum packets in the report, for pages that show packets; 0: none
	Around        int        // record around which packets are kept if there are too many; 0: the first ones are kept
	Tell          func(News) // called once for each connection that fails or may be about to; it must not use the Follower
	Messages      int        // maximum messages listed in the report, and as many more among later ones with a problem
}

// The defaults.
const (
	defaultConversations = 16384
	defaultKept          = 4096
	defaultMessages      = 500
	maxAddrs             = 64 // addresses remembered: to explain wrong ICRCs, and sources of outbound packets
)

// Follower follows packets. It is not safe for concurrent use.
type Follower struct {
	cfg   Config
	flows map[flowKey]flow
	alone map[addrPair][]*conversation // conversations with one known direction
	byQPN map[ib.QPN]*conversation     // the last one for each destination QP of requests
	alive *list.List                   // of *conversation, the latest active first
	links map[linkKey]*link            // connections of the connection managers
	order *list.List                   // of *link, the newest first
	own   []netip.Addr                 // sources of outbound packets at the place of capture

	pkt     roce.Packet
	now     instant
	start   time.Time
	wire    conversation // findings that belong to no conversation
	damage  damage
	keys    keys
	qkeys   qkeys
	report  Report
	ids     int
	pending int // messages in flight of all alive conversations

	messages messages
	kept     packetLog
	sight    sight
	swept    time.Duration // time of the last sweep
	inside   inside
}

// instant is the time and the record of a packet.
type instant struct {
	record int
	at     time.Duration // since the first packet
}

// New returns a Follower.
func New(c Config) *Follower {
	if c.Conversations <= 0 {
		c.Conversations = defaultConversations
	}
	if c.Kept <= 0 {
		c.Kept = defaultKept
	}
	if c.Messages <= 0 {
		c.Messages = defaultMessages
	}
	return &Follower{
		messages: messages{room: c.Messages},
		kept:     packetLog{limit: c.Packets, around: c.Around, joined: map[int]joined{}},
		cfg:      c, flows: map[flowKey]flow{}, alone: map[addrPair][]*conversation{}, byQPN: map[ib.QPN]*conversation{},
		alive: list.New(), links: map[linkKey]*link{}, order: list.New(),
		damage: damage{senders: map[netip.Addr]*senderSums{}},
	}
}

// Read follows all packets of a capture file and returns the report. For a damaged
// file it returns an error and the report of the packets before the damage. It
// blocks as r does.
func Read(r io.Reader, c Config) (*Report, error) { return New(c).Read(r) }

// Read is like the function Read, for a Follower that has no packets yet. While Read
// waits for r, r may call Idle.
func (f *Follower) Read(r io.Reader) (*Report, error) {
	file, err := pcapfile.NewReader(r)
	if err != nil {
		return nil, err
	}
	for {
		i, err := file.NextItem()
		if errors.Is(err, io.EOF) {
			f.report.Records = file.Records()
			return f.Report(), nil
		}
		if err != nil {
			f.report.Records = file.Records()
			return f.Report(), fmt.Errorf("explain: after record %d: %w", file.Records(), err)
		}
		f.Take(&i)
	}
}

// Take follows an item of a capture, or of several. It keeps nothing of a packet.
func (f *Follower) Take(i *pcapfile.Item) {
	if i.Entry != nil {
		f.report.Records = i.Entry.Record
		f.inside.hear(i.Entry, &f.start)
		return
	}
	f.report.Records = i.Packet.Record
	f.Add(i.Packet)
}

// Add follows one packet, in the order of capture. It keeps nothing of p.
func (f *Follower) Add(p *pcapfile.Packet) {
	fault, right := f.parse(p)
	if !right && !p.Truncated && runs.Split(p, f.Add) {
		return
	}
	if f.start.IsZero() {
		f.start = p.Time
	}
	f.report.Packets++
	f.now = instant{p.Record, p.Time.Sub(f.start)}
	if f.now.at > f.report.Duration {
		f.report.Duration = f.now.at
	}
	f.sight = sight{}
	f.follow(p, fault, right)
	if f.cfg.Tell != nil {
		f.watch()
	}
	if f.cfg.Packets > 0 && (!f.sight.twice || p.Comment != "") {
		f.keep(p)
	}
}

// parse parses a packet, unless its end is missing, and reports whether its ICRC is
// right.
func (f *Follower) parse(p *pcapfile.Packet) (fault roce.Fault, right bool) {
	if p.Truncated {
		return roce.FaultNone, false
	}
	if fault = f.pkt.Parse(p.Payload); fault != roce.FaultNone {
		return fault, false
	}
	sum, ok := roce.HeaderICRC(p.IP, p.UDP, p.Payload)
	return fault, ok && sum == f.pkt.ICRC
}

// follow processes a packet after parse.
func (f *Follower) follow(p *pcapfile.Packet, fault roce.Fault, right bool) {
	switch {
	case p.Truncated:
		if f.cut(p) {
			return
		}
	case fault != roce.FaultNone:
		f.malformed(p, fault)
		return
	case !f.sound(p, right):
		return
	}
	f.damage.know(p.Src)
	if strings.Contains(p.Comment, byRule) {
		f.asked(p)
	}
	if !f.arrival(p) {
		f.dispatch(p)
	}
}

// cut parses the headers of a packet whose end was not captured, and reports
// whether too much of the headers is missing too. UC needs only the first header.
func (f *Follower) cut(p *pcapfile.Packet) bool {
	f.report.Truncated++
	switch f.pkt.ParseHeaders(p.Payload) {
	case roce.FaultNone:
		return false
	case roce.FaultLength:
		return f.pkt.Info.Service != roce.ServiceUC
	default:
		return true
	}
}

// dispatch calls the method for the packet's service.
func (f *Follower) dispatch(p *pcapfile.Packet) {
	switch f.pkt.Info.Service {
	case roce.ServiceRC, roce.ServiceXRC, roce.ServiceRD:
		f.reliable(p)
	case roce.ServiceUC:
		f.unreliable(p)
	case roce.ServiceUD:
		if f.pkt.BTH.DestQP == ib.QPNGSI {
			if len(f.pkt.Payload) == mad.Size {
				f.manage(p, (*mad.MAD)(f.pkt.Payload))
			}
			return
		}
		f.datagram(p)
	case roce.ServiceCNP:
		f.notice(p)
	}
}

// byRule is part of the comment on a packet that a fault rule affected.
const byRule = " by rule '"

// asked adds a finding for a packet that a fault rule affected.
func (f *Follower) asked(p *pcapfile.Packet) {
	f.sight.marks |= marksOf(p.Comment)
	f.sight.effect = effectOf(p.Comment)
	rule := faultAsked
	if f.sight.marks&LostByRule != 0 && f.unrepeated() {
		rule = faultLost
	}
	comment := printable.Line(p.Comment, printable.Limit)
	f.wire.find(f.now, rule, "%v, %s", f.pkt.BTH.Opcode, comment)
	if f.report.asked == "" {
		f.report.asked = fmt.Sprintf("record %d, %v: %s", f.now.record, f.pkt.BTH.Opcode, comment)
	}
}

// altered reports whether a fault rule affected the packet in another way than by dropping it.
func (s *sight) altered() bool { return s.marks&ChangedByRule != 0 }

// unrepeated reports whether the packet is not retransmitted when it is lost.
func (f *Follower) unrepeated() bool {
	return f.pkt.Info.Service == roce.ServiceUC || f.pkt.Info.Service == roce.ServiceUD && f.pkt.BTH.DestQP != ib.QPNGSI
}

// Report ends all conversations and returns the report. The caller must not use the
// Follower again.
func (f *Follower) Report() *Report {
	for e := f.order.Back(); e != nil; e = f.order.Back() {
		f.endLink(e)
	}
	f.pairUp()
	for e := f.alive.Back(); e != nil; e = f.alive.Back() {
		f.end(e.Value.(*conversation))
	}
	f.damage.end(&f.wire)
	f.endWire()
	f.report.Start, f.report.listened = f.start, max(f.report.Duration, f.swept)
	f.report.add(&f.wire)
	f.conclude()
	return &f.report
}
