package ib

// WROpcode is the operation of a send work request.
type WROpcode uint8

// The operations, with the values of enum ibv_wr_opcode.
const (
	WRRDMAWrite        WROpcode = 0  // writes to memory of the peer
	WRRDMAWriteWithImm WROpcode = 1  // writes to memory of the peer, and completes one of its receives
	WRSend             WROpcode = 2  // message to a receive of the peer
	WRSendWithImm      WROpcode = 3  // message with 4 bytes of immediate data
	WRRDMARead         WROpcode = 4  // reads memory of the peer
	WRAtomicCmpAndSwp  WROpcode = 5  // replaces 8 bytes of the peer with Swap if they equal CompareAdd
	WRAtomicFetchAdd   WROpcode = 6  // adds CompareAdd to 8 bytes of the peer
	WRLocalInv         WROpcode = 7  // invalidates a local key
	WRBindMW           WROpcode = 8  // binds a memory window
	WRSendWithInv      WROpcode = 9  // message that invalidates InvRKey at the peer
	WRTSO              WROpcode = 10 // segmented send
	WRFlush            WROpcode = 14 // flushes earlier writes to memory of the peer
	WRAtomicWrite      WROpcode = 15 // writes 8 bytes of the peer atomically
)

// SendFlags modify a send work request.
type SendFlags uint8

// The flags, with the values of enum ibv_send_flags.
const (
	SendFence     SendFlags = 1 << 0 // waits for earlier READs and atomics
	SendSignaled  SendFlags = 1 << 1 // completes with an entry in the CQ
	SendSolicited SendFlags = 1 << 2 // raises a solicited event at the peer
	SendInline    SendFlags = 1 << 3 // the payload is InlineData, copied by the post
)

// SGE is a scatter/gather element: Length bytes at Addr of the region LKey.
// It has the layout of struct ibv_sge.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   LKey
}

// AHHandle names an address handle of the adapter, and never another one when
// that is gone. Zero is none.
type AHHandle uint64

// SendWR is a send work request as the engine takes it: programs post those of
// package verbs, which have the address handle itself.
type SendWR struct {
	WRID       uint64
	SGList     []SGE
	Opcode     WROpcode
	Flags      SendFlags
	ImmData    uint32 // immediate, host order; big-endian on the wire
	InvRKey    RKey   // SEND with invalidate, LOCAL_INV: the key to invalidate
	RKey       RKey   // RDMA, atomics and FLUSH
	RemoteAddr uint64 // RDMA, atomics and FLUSH

	CompareAdd uint64 // COMPARE&SWAP: compare; FETCH&ADD: what to add
	Swap       uint64 // COMPARE&SWAP
	Flush      Flush  // FLUSH

	AH         AHHandle // UD: destination
	EEC        EECN     // RD: the local EE context
	RemoteQPN  QPN      // UD, RD
	RemoteQKey QKey     // UD, RD

	RemoteSRQN SRQN // XRC_INI: the shared receive queue, also of RDMA and atomics

	InlineData []byte // payload with SendInline

	Bind *MWBind // BIND_MW
}

// RecvWR is a receive work request. Posting copies it; the memory that
// SGList names belongs to the adapter until the request completes.
type RecvWR struct {
	WRID   uint64
	SGList []SGE
}
