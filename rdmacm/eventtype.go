package rdmacm

// EventType is the type of an event. The values are those of enum
// rdma_cm_event_type, which has none for alternate paths.
type EventType uint8

// The events.
const (
	EventAddrResolved    EventType = iota // ResolveAddr found a device and a source address
	EventAddrError                        // ResolveAddr found none; Status is a negative errno
	EventRouteResolved                    // ResolveRoute is done
	EventRouteError                       // never raised: on RoCE there is always a route
	EventConnectRequest                   // a peer requests a connection; ID is new, Listener received it
	EventConnectResponse                  // the peer accepted, and the ID has no QP of CreateQP: Establish finishes
	EventConnectError                     // the QP could not be moved; Status is -1, Err the reason
	EventUnreachable                      // no answer, -ETIMEDOUT, or a bad SIDR status, positive
	EventRejected                         // Status is the reason, a mad.RejReason
	EventEstablished                      // both sides may send; UD: the peer's QP is known
	EventDisconnected                     // by either side
	EventDeviceRemoval                    // the adapter was closed or failed
	EventMulticastJoin                    // JoinMulticast is done
	EventMulticastError                   // JoinMulticast failed; Status is -1, Err the reason
	EventAddrChange                       // never raised: addresses of an adapter do not change
	EventTimewaitExit                     // no packet of the connection can be in flight any more
	numEvents
)

// The events of alternate paths, which librdmacm does not have.
const (
	EventAltPathRequest EventType = 0x80 + iota // the peer requests one: call AnswerAltPath
	EventAltPathLoaded                          // both sides agree on one; with AutoAltPath it is loaded
	EventAltPathError                           // Status is the peer's answer, a mad.APRStatus, or a negative errno
)

var eventNames = [numEvents]string{
	"RDMA_CM_EVENT_ADDR_RESOLVED", "RDMA_CM_EVENT_ADDR_ERROR", "RDMA_CM_EVENT_ROUTE_RESOLVED",
	"RDMA_CM_EVENT_ROUTE_ERROR", "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
	"RDMA_CM_EVENT_CONNECT_ERROR", "RDMA_CM_EVENT_UNREACHABLE", "RDMA_CM_EVENT_REJECTED",
	"RDMA_CM_EVENT_ESTABLISHED", "RDMA_CM_EVENT_DISCONNECTED", "RDMA_CM_EVENT_DEVICE_REMOVAL",
	"RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR", "RDMA_CM_EVENT_ADDR_CHANGE",
	"RDMA_CM_EVENT_TIMEWAIT_EXIT",
}

// String returns the name as rdma_event_str does, such as
// "RDMA_CM_EVENT_ADDR_RESOLVED".
func (t EventType) String() string {
	switch t {
	case EventAltPathRequest:
		return "ALT_PATH_REQUEST"
	case EventAltPathLoaded:
		return "ALT_PATH_LOADED"
	case EventAltPathError:
		return "ALT_PATH_ERROR"
	}
	if t < numEvents {
		return eventNames[t]
	}
	return "UNKNOWN EVENT"
}
