package gsi

// Counters are the counts of an interface beside those of its adapter. They
// only grow.
type Counters struct {
	Sent        uint64 // MADs handed to the network, retries and answers among them
	Received    uint64 // datagrams with the service, addresses and keys of QP1
	Retried     uint64 // requests sent again
	TimedOut    uint64 // requests that ended without an answer
	Unsupported uint64 // Gets and Sets answered with what is not supported
	Informed    uint64 // Gets of ClassPortInfo answered
	QueueFull   uint64 // MADs and retries that found the queue full
}

// Each calls f with the name and the value of every counter, in a fixed order.
func (c *Counters) Each(f func(name string, v uint64)) {
	f("mad_sent", c.Sent)
	f("mad_received", c.Received)
	f("mad_retries", c.Retried)
	f("mad_timeouts", c.TimedOut)
	f("mad_unsupported", c.Unsupported)
	f("mad_class_port_info", c.Informed)
	f("mad_queue_full", c.QueueFull)
}
