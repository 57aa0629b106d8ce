package ib

import "strconv"

// name returns the entry of a table of names, or the number in parentheses
// after kind for a value that has no name.
func name(names []string, v int, kind string) string {
	if v >= 0 && v < len(names) && names[v] != "" {
		return names[v]
	}
	return kind + "(" + strconv.Itoa(v) + ")"
}

var (
	stateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}
	typeNames  = [...]string{"SMI", "GSI", "RC", "UC", "UD", "RD", "EEC", XRCIni: "XRC_INI", XRCTgt: "XRC_TGT"}
	migNames   = [...]string{"MIGRATED", "REARM", "ARMED"}
	portNames  = [...]string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}
	wrNames    = [...]string{
		"RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM", "RDMA_READ",
		"ATOMIC_CMP_AND_SWP", "ATOMIC_FETCH_AND_ADD", "LOCAL_INV", "BIND_MW", "SEND_WITH_INV",
		"TSO", "", "", "", "FLUSH", "ATOMIC_WRITE",
	}
	wcNames = [...]string{
		"SEND", "RDMA_WRITE", "RDMA_READ", "COMP_SWAP", "FETCH_ADD", "BIND_MW", "LOCAL_INV",
		"TSO", "FLUSH", "ATOMIC_WRITE", 128: "RECV", 129: "RECV_RDMA_WITH_IMM",
	}
)

// String returns the name of the state, such as "RTS".
func (s QPState) String() string { return name(stateNames[:], int(s), "QPState") }

// String returns the name of the service, such as "RC".
func (t QPType) String() string { return name(typeNames[:], int(t), "QPType") }

// String returns the name of the migration state.
func (m MigState) String() string { return name(migNames[:], int(m), "MigState") }

// String returns the name of the port state.
func (p PortState) String() string { return name(portNames[:], int(p), "PortState") }

// String returns the name of the operation, such as "RDMA_READ".
func (o WROpcode) String() string { return name(wrNames[:], int(o), "WROpcode") }

// String returns the name of the completed operation, such as "RECV".
func (o WCOpcode) String() string { return name(wcNames[:], int(o), "WCOpcode") }

// String returns the name of the status without its prefix, such as
// "RETRY_EXC_ERR".
func (s WCStatus) String() string { return name(wcStatusNames[:], int(s), "WCStatus") }

// String returns the name of the event without its prefix, such as "COMM_EST".
func (e EventType) String() string { return name(eventNames[:], int(e), "EventType") }
