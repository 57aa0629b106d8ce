package rping

// state is how far a connection is. The numbers and names are those that rping
// prints.
type state uint8

const (
	idle state = iota + 1
	connectRequest
	addrResolved
	routeResolved
	connected
	readAdv       // server: the client's text may be read; client: it has been offered
	readComplete  // server: it has been read
	writeAdv      // server: the client's other buffer may be written; client: the text was read
	writeComplete // the text is back
	disconnected
	failed
)

var stateNames = [...]string{
	idle: "IDLE", connectRequest: "CONNECT_REQUEST", addrResolved: "ADDR_RESOLVED", routeResolved: "ROUTE_RESOLVED",
	connected: "CONNECTED", readAdv: "RDMA_READ_ADV", readComplete: "RDMA_READ_COMPLETE", writeAdv: "RDMA_WRITE_ADV",
	writeComplete: "RDMA_WRITE_COMPLETE", disconnected: "DISCONNECTED", failed: "ERROR",
}

// String returns the name, such as "RDMA_READ_ADV".
func (s state) String() string { return stateNames[s] }
