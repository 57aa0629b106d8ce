package roce

// operation is one row of the opcode table: what bits 4 to 0 of an opcode
// mean, in the services that have it.
type operation struct {
	code     uint8
	name     string
	kind     Kind
	flags    OpFlags
	headers  Headers // in RC; the other services add theirs
	payload  PayloadRule
	services services
}

// services is a set of Service values.
type services uint8

const (
	inRC  services = 1 << ServiceRC
	inUC  services = 1 << ServiceUC
	inRD  services = 1 << ServiceRD
	inUD  services = 1 << ServiceUD
	inCNP services = 1 << ServiceCNP
	inXRC services = 1 << ServiceXRC

	inStreams  = inRC | inUC | inRD | inXRC
	inReliable = inRC | inRD | inXRC

	flagOnly = FlagStart | FlagEnd
)

// operations is the opcode table (IBA 9.2.1 and the annexes for XRC, CNP,
// FLUSH and ATOMIC WRITE). Codes that are missing are reserved.
var operations = [...]operation{
	{0x00, "SEND_FIRST", KindSend, FlagStart, 0, PayloadMTU, inStreams},
	{0x01, "SEND_MIDDLE", KindSend, 0, 0, PayloadMTU, inStreams},
	{0x02, "SEND_LAST", KindSend, FlagEnd, 0, PayloadLast, inStreams},
	{0x03, "SEND_LAST_WITH_IMM", KindSend, FlagEnd | FlagImm, HasImmDt, PayloadLast, inStreams},
	{0x04, "SEND_ONLY", KindSend, flagOnly, 0, PayloadUpToMTU, inStreams | inUD},
	{0x05, "SEND_ONLY_WITH_IMM", KindSend, flagOnly | FlagImm, HasImmDt, PayloadUpToMTU, inStreams | inUD},
	{0x06, "RDMA_WRITE_FIRST", KindWrite, FlagStart, HasRETH, PayloadMTU, inStreams},
	{0x07, "RDMA_WRITE_MIDDLE", KindWrite, 0, 0, PayloadMTU, inStreams},
	{0x08, "RDMA_WRITE_LAST", KindWrite, FlagEnd, 0, PayloadLast, inStreams},
	{0x09, "RDMA_WRITE_LAST_WITH_IMM", KindWrite, FlagEnd | FlagImm, HasImmDt, PayloadLast, inStreams},
	{0x0a, "RDMA_WRITE_ONLY", KindWrite, flagOnly, HasRETH, PayloadUpToMTU, inStreams},
	{0x0b, "RDMA_WRITE_ONLY_WITH_IMM", KindWrite, flagOnly | FlagImm, HasRETH | HasImmDt, PayloadUpToMTU, inStreams},
	{0x0c, "RDMA_READ_REQUEST", KindReadRequest, flagOnly, HasRETH, PayloadNone, inReliable},
	{0x0d, "RDMA_READ_RESPONSE_FIRST", KindReadResponse, FlagStart | FlagResponse, HasAETH, PayloadMTU, inReliable},
	{0x0e, "RDMA_READ_RESPONSE_MIDDLE", KindReadResponse, FlagResponse, 0, PayloadMTU, inReliable},
	{0x0f, "RDMA_READ_RESPONSE_LAST", KindReadResponse, FlagEnd | FlagResponse, HasAETH, PayloadLast, inReliable},
	{0x10, "RDMA_READ_RESPONSE_ONLY", KindReadResponse, flagOnly | FlagResponse, HasAETH, PayloadUpToMTU, inReliable},
	{0x11, "ACKNOWLEDGE", KindAck, flagOnly | FlagResponse, HasAETH, PayloadNone, inReliable},
	{0x12, "ATOMIC_ACKNOWLEDGE", KindAtomicAck, flagOnly | FlagResponse, HasAETH | HasAtomicAckETH, PayloadNone, inReliable},
	{0x13, "COMPARE_SWAP", KindCompareSwap, flagOnly, HasAtomicETH, PayloadNone, inReliable},
	{0x14, "FETCH_ADD", KindFetchAdd, flagOnly, HasAtomicETH, PayloadNone, inReliable},
	{0x15, "RESYNC", KindResync, flagOnly, 0, PayloadNone, inRD},
	{0x16, "SEND_LAST_WITH_INVALIDATE", KindSend, FlagEnd | FlagInv, HasIETH, PayloadLast, inRC | inXRC},
	{0x17, "SEND_ONLY_WITH_INVALIDATE", KindSend, flagOnly | FlagInv, HasIETH, PayloadUpToMTU, inRC | inXRC},
	{0x1c, "FLUSH", KindFlush, flagOnly, HasFETH | HasRETH, PayloadNone, inReliable},
	{0x1d, "ATOMIC_WRITE", KindAtomicWrite, flagOnly, HasRETH, Payload8, inRC | inXRC},
	{0x01, "", KindCNP, flagOnly, 0, Payload16, inCNP},
}

// opTable is operations spread over the 256 opcodes.
var opTable = makeOpTable()

// makeOpTable combines the rows of operations with the services that have
// them. Two rows for one opcode are a bug of the table.
func makeOpTable() (t [256]OpInfo) {
	for i := range t {
		t[i] = OpInfo{Service: Service(i >> 5), HeaderLen: BTHLen}
	}
	for _, op := range operations {
		for s := ServiceRC; s <= ServiceXRC; s++ {
			if op.services&(1<<s) == 0 {
				continue
			}
			info := &t[uint8(s)<<5|op.code]
			if info.Known {
				panic("roce: opcode table names " + info.Name + " twice")
			}
			*info = op.in(s)
		}
	}
	return t
}

// in returns what the operation is in one service.
func (op operation) in(s Service) OpInfo {
	info := OpInfo{
		Name: s.String(), Known: true, Service: s, Kind: op.kind, Flags: op.flags,
		Headers: op.headers | s.headers(op.flags&FlagResponse != 0),
		Payload: op.payload, HeaderLen: BTHLen,
	}
	if op.name != "" {
		info.Name += "_" + op.name
	}
	for _, h := range headerLens {
		if info.Headers&h.header != 0 {
			info.HeaderLen += h.length
		}
	}
	return info
}

// headers returns what a service puts between the BTH and the headers of the
// operation: RD names its end-to-end context in every packet, the datagram
// services their source QP in requests, XRC its receive queue in requests.
func (s Service) headers(response bool) Headers {
	switch {
	case s == ServiceRD && response:
		return HasRDETH
	case s == ServiceRD:
		return HasRDETH | HasDETH
	case s == ServiceUD:
		return HasDETH
	case s == ServiceXRC && !response:
		return HasXRCETH
	default:
		return 0
	}
}
