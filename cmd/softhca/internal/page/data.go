package page

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/cmd/softhca/internal/decode"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/explain"
	"github.com/softhca/softhca/roce"
)

// tables are the script's data in addition to the packets.
type tables struct {
	Conversations []explain.Conversation `json:"conversations"`
	Findings      []*explain.Finding     `json:"findings"`
	Messages      []explain.Message      `json:"messages"`
	Cause         string                 `json:"cause"`
	Record        int                    `json:"record_of_cause"`
	Packets       int                    `json:"packets"`
	Names         []string               `json:"names"` // of rules, by the number in the column; the first is none
	Unlisted      int                    `json:"unlisted_messages"`
	Rules         map[string]rule        `json:"rules"` // that were found
	Addrs         []netip.Addr           `json:"addrs"`
	Comments      []string               `json:"comments"`
	Operations    map[int]operation      `json:"operations"`
	Headers       []header               `json:"headers"`
	Syndromes     []string               `json:"syndromes"`
	Timers        []string               `json:"timers"`      // of RNR NAKs
	Management    map[int]*decode.MAD    `json:"management"`  // by the index of the packet
	Descriptions  map[int]string         `json:"description"` // of these
	Columns       []column               `json:"columns"`
	Docs          string                 `json:"docs"` // where the documentation is
}

// rule is the script's description of a finding.
type rule struct {
	Severity  string `json:"severity"`
	Title     string `json:"title"`
	Requester string `json:"requester,omitempty"`
	Responder string `json:"responder,omitempty"`
	Page      string `json:"page"` // of the documentation
}

// column is one number of every packet, little-endian.
type column struct {
	Name string `json:"name"`
	Type string `json:"type"` // u8, u16, u32, i32
	data []byte
}

// collector collects packets in columns.
type collector struct {
	tables
	addrs    map[netip.Addr]int
	comments map[string]int
	rules    map[string]int
	heads    []byte
	bare     int // management datagrams that are not decoded
}

// columnTypes are the columns in their order.
var columnTypes = [...]column{
	{Name: "record", Type: "u32"}, {Name: "timeLow", Type: "u32"}, {Name: "timeHigh", Type: "i32"}, {Name: "src", Type: "u16"}, {Name: "dst", Type: "u16"},
	{Name: "port", Type: "u16"}, {Name: "tclass", Type: "u8"}, {Name: "ttl", Type: "u8"}, {Name: "id", Type: "u16"}, {Name: "length", Type: "u16"},
	{Name: "conversation", Type: "u32"}, {Name: "side", Type: "u8"}, {Name: "marks", Type: "u8"}, {Name: "finding", Type: "u8"}, {Name: "comment", Type: "u32"},
	{Name: "head", Type: "u16"},
	{Name: "phaseA", Type: "u8"}, {Name: "nextA", Type: "u32"}, {Name: "unaA", Type: "u32"}, {Name: "messagesA", Type: "u16"}, {Name: "msnA", Type: "i32"},
	{Name: "phaseB", Type: "u8"}, {Name: "nextB", Type: "u32"}, {Name: "unaB", Type: "u32"}, {Name: "messagesB", Type: "u16"}, {Name: "msnB", Type: "i32"},
}

// collect returns the tables and columns of a report.
func collect(r *explain.Report) *collector {
	c := &collector{
		tables: tables{
			Conversations: r.Conversations, Findings: r.Findings[:min(len(r.Findings), maxListed)], Messages: r.Messages,
			Cause: r.Verdict.Cause, Record: r.Notable(), Unlisted: r.UnlistedMessages, Rules: map[string]rule{}, Comments: []string{""}, Names: []string{""}, Packets: len(r.Kept),
			Operations: operations(), Headers: headers[:], Management: map[int]*decode.MAD{}, Descriptions: map[int]string{}, Docs: docs,
			Columns: append([]column(nil), columnTypes[:]...),
		},
		addrs: map[netip.Addr]int{}, comments: map[string]int{"": 0}, rules: map[string]int{"": 0},
	}
	for s := range 256 {
		c.Syndromes = append(c.Syndromes, roce.Syndrome(s).String())
	}
	for code := range uint8(32) {
		c.Timers = append(c.Timers, ib.RNRTimer(code).String())
	}
	for i, known := range explain.Rules() {
		c.rules[known.Name] = i + 1
		c.Names = append(c.Names, known.Name)
		c.Rules[known.Name] = rule{known.Severity.String(), known.Title, known.Requester.String(), known.Responder.String(), known.Page()}
	}
	heads := 0
	for i := range r.Kept {
		heads += len(r.Kept[i].Head)
	}
	c.heads = make([]byte, 0, heads)
	for i := range r.Kept {
		c.add(&r.Kept[i])
	}
	c.manage(r)
	return c
}

// manage decodes the management datagrams, those around the cause of the verdict if there are
// too many.
func (c *collector) manage(r *explain.Report) {
	var found []int // indexes of the packets
	cause := 0      // datagrams before the cause
	var pkt roce.Packet
	for i := range r.Kept {
		if pkt.Parse(r.Kept[i].Head) != roce.FaultNone || !decode.IsManagement(&pkt) {
			continue
		}
		if found = append(found, i); r.Kept[i].Record < c.Record {
			cause++
		}
	}
	first := min(max(0, cause-maxManagement/2), max(0, len(found)-maxManagement))
	shown := found[first:min(len(found), first+maxManagement)]
	c.bare = len(found) - len(shown)
	for _, i := range shown {
		if pkt.Parse(r.Kept[i].Head) == roce.FaultNone {
			c.Management[i], c.Descriptions[i] = decode.Management(&pkt)
		}
	}
}

// undecoded describes the management datagrams without fields, if there are any.
func (c *collector) undecoded() string {
	if c.bare == 0 {
		return ""
	}
	return fmt.Sprintf("Of %d management datagrams the fields are shown, those around record %d; of %d others only the bytes.", len(c.Management), c.Record, c.bare)
}

// add adds a packet to the columns.
func (c *collector) add(p *explain.Packet) {
	at := p.At.Nanoseconds()
	values := [len(columnTypes)]int64{
		int64(p.Record), at & 0xffffffff, at >> 32, indexOf(c.addrs, &c.Addrs, p.Src), indexOf(c.addrs, &c.Addrs, p.Dst), int64(p.SrcPort), int64(p.TClass), int64(p.TTL), int64(p.ID),
		int64(p.Length), int64(p.Conversation), int64(p.Side), int64(p.Marks), int64(c.rules[p.Finding]), indexOf(c.comments, &c.Comments, p.Comment), int64(len(p.Head)),
	}
	for side := range p.Ends {
		s := &p.Ends[side]
		copy(values[16+5*side:], []int64{int64(s.Phase), int64(s.Next), int64(s.Una), int64(s.Messages), int64(s.MSN)})
	}
	for k, v := range values {
		col := &c.Columns[k]
		switch col.Type {
		case "u8":
			col.data = append(col.data, byte(v))
		case "u16":
			col.data = binary.LittleEndian.AppendUint16(col.data, uint16(v))
		default:
			col.data = binary.LittleEndian.AppendUint32(col.data, uint32(v))
		}
	}
	c.heads = append(c.heads, p.Head...)
}

// indexOf returns the index of a value in a list, to which it adds a new one.
func indexOf[T comparable](known map[T]int, list *[]T, v T) int64 {
	i, ok := known[v]
	if !ok {
		i = len(*list)
		known[v] = i
		*list = append(*list, v)
	}
	return int64(i)
}

// encode returns everything compressed and in base64: the length of the JSON, the
// JSON, the columns and the heads of the packets.
func (c *collector) encode() (string, error) {
	text, err := json.Marshal(&c.tables)
	if err != nil {
		return "", fmt.Errorf("page: %w", err)
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	parts := [][]byte{binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text}
	for i := range c.Columns {
		parts = append(parts, c.Columns[i].data)
	}
	for _, part := range append(parts, c.heads) {
		if _, err := z.Write(part); err != nil {
			return "", fmt.Errorf("page: %w", err)
		}
	}
	if err := z.Close(); err != nil {
		return "", fmt.Errorf("page: %w", err)
	}
	return base64.URLEncoding.EncodeToString(out.Bytes()), nil
}
