package verbs

// AttachMcast makes a UD queue pair receive messages to a multicast group, on
// every network on which the adapter has an address of the group's family.
// Each attached queue pair, of this adapter or another, gets its own copy, which
// must match its Q_Key and P_Key and consumes one of its receives. So does the
// sender, if it is attached. A sender need not be attached: it uses an address
// handle with the group's GID and the QPN 0xffffff.
//
// The GID is that of an IPv4 group, v4-mapped, or of an IPv6 group. lid is
// ignored: RoCE has no LIDs. Attaching a queue pair again changes nothing.
// Destroy ends all attachments.
//
// The call makes the host join the group, and waits for the operating system.
// Errors unwrap to EINVAL for another service or a GID that is not a multicast
// group, ENOMEM beyond the limits that QueryDevice returns, EADDRNOTAVAIL if the
// adapter has no address of that family, and EOPNOTSUPP if the port does not
// support multicast, as on systems other than Linux.
func (q *QP) AttachMcast(gid GID, lid uint16) error {
	return wrap("attach to multicast group", q.verbs().Attach(gid))
}

// DetachMcast ends an attachment: EINVAL if there is none. Packets that have
// arrived and were not processed yet are dropped.
func (q *QP) DetachMcast(gid GID, lid uint16) error {
	return wrap("detach from multicast group", q.verbs().Detach(gid))
}
