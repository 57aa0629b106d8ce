package main

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// messages are the structures of the connection manager's messages, which decode
// prints by reflection, each under its name in the object of the datagram.
var messages = []string{"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDRREQ", "SIDRREP", "LAP", "APR"}

const (
	madDir  = "mad"
	pathMAD = "Path"
)

// datagram is the object that has the messages.
var datagram = object{"cmd/softhca/internal/decode", "MAD"}

// said gives the meaning of message fields that have no comment in package mad,
// where the names of their types explain them.
var said = map[string]string{
	"local_comm_id": "the sender's handle of the connection", "remote_comm_id": "the receiver's handle of the connection",
	"private_data": "the program's private data, without its trailing zeros", "service": "that ID in words, such as `tcp:7174`",
	"service_id": "the service that the request asks for", "local_ca_guid": "of the sender's adapter", "pkey": "of the connection",
	"path_mtu_code": "1 to 5: 256, 512, 1024, 2048, 4096 bytes", "transport": "0: RC, 1: UC, 2: RD, 3: another one",
	"local_qpn": "of the sender's queue pair", "primary": "the path", "alternate": "another path; missing if there is none", "message": "the message that it refers to",
	"reason": "the reason", "status": "the outcome", "remote_gid": "of the receiver's port", "local_gid": "of the sender's port",
	"remote_lid": "65535 for a path across routers, as on RoCE", "traffic_class": "of the packets", "hop_limit": "of the packets",
	"qkey": "of the queue pair", "qpn": "of the service", "remote_qpn": "of the receiver's queue pair", "remote_eecn": "of the receiver's EE context, with RD",
	"failover_accepted": "outcome for the alternate path of the REQ: 0 is accepted", "end_to_end_flow_control": "the sender's adapter gives credits in acknowledges",
	"local_qkey": "RD only", "vendor_id": "vendor whose options the datagram holds; 0 for none",
}

// memberNames matches the parts of field names, in the same way as decode.
var memberNames = regexp.MustCompile("RDC|RNR|SAP|CM|CA|QKey|PKey|[A-Z][a-z]+|[A-Z]+")

// messageFields returns the members of a message, or of a path of one.
func (p *page) messageFields(name string) (all []field) {
	in, err := p.source.load(madDir)
	if err != nil {
		p.problem("%w", err)
		return nil
	}
	d := in.types[name]
	st, ok := d.expr.(*ast.StructType)
	if !ok {
		p.problem("mad: there is no structure %s", name)
		return nil
	}
	addressed := name == "REQ" || name == "SIDRREQ"
	for _, f := range st.Fields.List {
		for _, id := range f.Names {
			member := strings.ToLower(strings.Join(memberNames.FindAllString(id.Name, -1), "_"))
			all = append(all, p.messageField(name, member, f, addressed)...)
		}
	}
	return all
}

// messageField returns the JSON members for a field of a message.
func (p *page) messageField(message, name string, f *ast.Field, addressed bool) []field {
	one := func(name, json, meaning string) field {
		if meaning == "" {
			meaning = said[name]
		}
		return p.field("mad."+message, name, json, meaning)
	}
	meaning := comment(f)
	switch kind := typeName(f.Type); kind {
	case "ServiceID":
		return []field{one(name, text, meaning), one("service", text, "")}
	case "TransportService", "Which", "RejReason", "SIDRStatus", "APRStatus":
		return []field{one(name, integer, meaning), one(name+"_name", text, "the same in words")}
	case pathMAD:
		p.queue = append(p.queue, object{madDir, pathMAD})
		json := link(title(madDir, pathMAD))
		if name == "alternate" && message == "REQ" {
			json, meaning = json+", or missing", ""
		}
		return []field{one(name, json, meaning)}
	case "MTU":
		return []field{one(name+"_code", integer, "")}
	case "GUID", "GID", "uint64":
		return []field{one(name, text, meaning)}
	case "bool":
		return []field{one(name, boolean, meaning)}
	case "[]":
		all := []field{one(name, text, meaning)}
		if name == "private_data" && addressed {
			p.queue = append(p.queue, object{datagram.dir, "IP"})
			all = slices.Insert(all, 0, p.field("mad."+message, "ip", link(title(datagram.dir, "IP"))+", or missing", "the addresses that rdma_cm puts in front of the program's data"))
		}
		return all
	default:
		return []field{one(name, integer, meaning)}
	}
}

// typeName returns the name of a type without its package, "[]" of arrays.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	default:
		return "[]"
	}
}
