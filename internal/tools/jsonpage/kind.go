package main

import (
	"regexp"
	"strings"
)

// kind is a kind of value, such as a time or a number of bytes. All values of a
// kind have one JSON type.
type kind struct {
	name    string
	json    string // its type
	meaning string
	fields  *regexp.Regexp // the names of fields of this kind; nil: all remaining fields of the type
}

// The types of JSON.
const (
	text    = "string"
	integer = "integer"
	number  = "number"
	boolean = "boolean"
)

// kinds has the kinds; the first that fits a field is its kind.
var kinds = []kind{
	{"QPN", integer, "number of a queue pair, 24 bits; likewise of an EE context or an SRQ", names("qpn|.*_qpn|eec|.*_eecn|srqn")},
	{"PSN", integer, "packet sequence number, 24 bits", names("psn|.*_psn")},
	{"key", integer, "R_Key or Q_Key of 32 bits, or P_Key of 16", names("rkey|qkey|pkey|pkeys|.*_rkey|.*_qkey|.*_pkey")},
	{"GID", text, "eight groups of four hexadecimal digits, as rdma-core and /sys write it", names("gid|.*_gid")},
	{"GUID", text, "four groups of four hexadecimal digits", names(".*guid")},
	{"address", text, "IP address, such as `10.77.0.2` or `fd00::2`", names("addr|src|dst")},
	{"64 bits", text, "`0x` and hexadecimal digits, as readers of JSON need not hold 64 bits in a number: virtual addresses, operands of atomics, transaction and service IDs", names("va|tid|swap_add|compare|atomic_ack|service_id")},
	{"bytes in hexadecimal", text, "two digits a byte, nothing between them", names("data|private_data|info|got_hex|sent_hex")},
	{"time", text, "RFC 3339, UTC, up to nanoseconds", names("time|date|start|last_error_at")},
	{"duration", number, "in the unit that the field's name ends with, `_ns`, `_us`, `_ms` or `_s` (`seconds`, `ms`), or that of the object that it is in", names(".*_ns|.*_us|.*_ms|.*_s|seconds|ms|us_per_connection|p50|p90|p99|p999|max|mean")},
	{"rate", number, "a second; `gbps` in 10^9 bits, `mpps` in 10^6 messages", names("gbps|mpps|.*_gbps|.*per_second.*")},
	{"share", number, "from 0 to 1; a ratio may be greater", names("loss|ratio|.*_ratio|.*_share")},
	{"bytes", integer, "a number of bytes", names(".*bytes|size|length|payload|.*_buffer|path_mtu|active_mtu|max_inline_data|max_msg_size")},
	{"count, or code", integer, "a number of things, an index, or a code of the protocol", nil},
	{"text", text, "for people, or one of some words; the words are in the meaning", nil},
	{"yes or no", boolean, "", nil},
}

// names returns an expression that matches whole names.
func names(alternatives string) *regexp.Regexp {
	return regexp.MustCompile("^(" + alternatives + ")$")
}

// kindOf returns the kind of a field with this JSON type; false if the kind has
// another type.
func kindOf(name, json string) (kind, bool) {
	element := strings.TrimPrefix(json, "array of ")
	for _, k := range kinds {
		if k.fields == nil && k.json == element {
			return k, true
		}
		if k.fields != nil && k.fields.MatchString(name) {
			return k, k.json == element || k.json == number && element == integer
		}
	}
	return kind{}, false
}
