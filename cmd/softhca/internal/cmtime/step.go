package cmtime

// step is a part of a connection's life.
type step uint8

// The steps, in their order.
const (
	createID step = iota
	bindAddr
	resolveAddr
	resolveRoute
	createQP
	connect
	transfer // of cycles only
	disconnect
	destroy
	numSteps
)

var stepNames = [numSteps]string{
	"create id", "bind addr", "resolve addr", "resolve route", "create qp", "connect", "transfer", "disconnect", "destroy",
}

// String returns the name that the table has, such as "resolve addr".
func (s step) String() string { return stepNames[s] }
