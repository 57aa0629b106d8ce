package ib

// EventType is the kind of an asynchronous event.
type EventType uint8

// The events, with the values of enum ibv_event_type.
const (
	EventCQErr            EventType = iota // the CQ overflowed
	EventQPFatal                           // the QP failed; it is in ERR
	EventQPReqErr                          // the QP received an invalid request; it is in ERR
	EventQPAccessErr                       // a request to the QP violated access rights; it is in ERR
	EventCommEst                           // the QP received its first packet in RTR
	EventSQDrained                         // the send queue is drained
	EventPathMig                           // the QP moved to its alternate path
	EventPathMigErr                        // the QP could not move to its alternate path
	EventDeviceFatal                       // the adapter failed
	EventPortActive                        // the port is active
	EventPortErr                           // the port is down
	EventLIDChange                         // InfiniBand only
	EventPKeyChange                        // the P_Key table changed
	EventSMChange                          // InfiniBand only
	EventSRQErr                            // the SRQ failed
	EventSRQLimitReached                   // the SRQ has fewer receives than its limit
	EventQPLastWQEReached                  // a QP in ERR takes no more receives of its SRQ
	EventClientReregister                  // InfiniBand only
	EventGIDChange                         // the GID table changed
	EventWQFatal                           // a work queue failed
)

// The events of EE contexts have no number in the user verbs of rdma-core:
// theirs is 128 more than that of the same event of a queue pair.
const (
	EventEECFatal      EventType = eventEEC + EventQPFatal    // the EE context failed; it is in ERR
	EventEECCommEst    EventType = eventEEC + EventCommEst    // the EE context received its first packet in RTR
	EventEECSQDrained  EventType = eventEEC + EventSQDrained  // the EE context is drained
	EventEECPathMig    EventType = eventEEC + EventPathMig    // the EE context moved to its alternate path
	EventEECPathMigErr EventType = eventEEC + EventPathMigErr // the EE context could not move to its alternate path
)

const eventEEC EventType = 128

// OfEEC returns the event of an EE context that is to it what e, which has such
// a one, is to a queue pair.
func (e EventType) OfEEC() EventType { return eventEEC + e }

var eventNames = [...]string{
	"CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED",
	"PATH_MIG", "PATH_MIG_ERR", "DEVICE_FATAL", "PORT_ACTIVE", "PORT_ERR", "LID_CHANGE",
	"PKEY_CHANGE", "SM_CHANGE", "SRQ_ERR", "SRQ_LIMIT_REACHED", "QP_LAST_WQE_REACHED",
	"CLIENT_REREGISTER", "GID_CHANGE", "WQ_FATAL",
	EventEECFatal: "EEC_FATAL", EventEECCommEst: "EEC_COMM_EST", EventEECSQDrained: "EEC_SQ_DRAINED",
	EventEECPathMig: "EEC_PATH_MIG", EventEECPathMigErr: "EEC_PATH_MIG_ERR",
}
