package ib

// EventType is the kind of an asynchronous event.
type EventType uint8

// The events, with the values of enum ibv_event_type.
const (
	EventCQErr EventType = iota
	EventQPFatal
	EventQPReqErr
	EventQPAccessErr
	EventCommEst
	EventSQDrained
	EventPathMig
	EventPathMigErr
	EventDeviceFatal
	EventPortActive
	EventPortErr
	EventLIDChange
	EventPKeyChange
	EventSMChange
	EventSRQErr
	EventSRQLimitReached
	EventQPLastWQEReached
	EventClientReregister
	EventGIDChange
	EventWQFatal
)

// The events of EE contexts have no number in the user verbs of rdma-core:
// theirs is 128 more than that of the same event of a queue pair.
const (
	EventEECFatal      = eventEEC + EventQPFatal
	EventEECCommEst    = eventEEC + EventCommEst
	EventEECSQDrained  = eventEEC + EventSQDrained
	EventEECPathMig    = eventEEC + EventPathMig
	EventEECPathMigErr = eventEEC + EventPathMigErr
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
