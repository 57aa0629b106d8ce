package ib

import "fmt"

// Error returns the name of the status, as String does: a status is an error as
// a syscall.Errno is one, which makes errors.Is(err, WCRetryExcErr) work.
func (s WCStatus) Error() string { return s.String() }

// Err returns nil for a completion with SUCCESS, and a WCError for any other. The
// page docs/statuses.md tells of each status how it comes about, how to provoke it, and
// what to check.
func (wc WC) Err() error {
	if wc.Status == WCSuccess {
		return nil
	}
	return WCError{WRID: wc.WRID, Status: wc.Status, VendorErr: wc.VendorErr, QPN: wc.QPN}
}

// WCError is a work request that failed: what is valid of its completion. It
// unwraps to the status. Which operation it was, the completion does not say;
// the program knows it by WRID.
type WCError struct {
	WRID      uint64
	Status    WCStatus
	VendorErr uint32
	QPN       QPN // the local QP
}

// Error returns one line: which work request of which QP, the status, what it
// means, and what to look at.
func (e WCError) Error() string {
	text := fmt.Sprintf("work request %d of QP %v: %v", e.WRID, e.QPN, e.Status)
	if e.VendorErr == VendorErrFault {
		return text + ": a fault on demand made it fail"
	}
	if e.VendorErr != 0 {
		text += fmt.Sprintf(" (vendor error %#x)", e.VendorErr)
	}
	if int(e.Status) < len(wcAdvice) && wcAdvice[e.Status].means != "" {
		text += ": " + wcAdvice[e.Status].means + "; " + wcAdvice[e.Status].look
	}
	return text
}

// Unwrap returns the status.
func (e WCError) Unwrap() error { return e.Status }

// wcAdvice says of each status what it means and what to look at.
var wcAdvice = [...]struct{ means, look string }{
	WCLocLenErr: {
		"a length does not fit: a message is longer than the receive it met, a datagram than the port's MTU, or the answer to a READ has another length than was asked for",
		"compare the sizes that both programs post; a receive of UD needs 40 bytes more, for the GRH",
	},
	WCLocQPOpErr: {
		"the adapter could not carry out the request as it stands in the queue",
		"see whether the address handle and the sizes of the request are still valid",
	},
	WCLocEECOpErr: {
		"the EE context stopped in the middle of the request",
		"look at the state of the EE context and at its asynchronous events",
	},
	WCLocProtErr: {
		"a scatter or gather element names memory that this QP may not use",
		"check LKey, address and length of each element, that the region is of the same PD and still registered, and, for receives and READs, its right of local write",
	},
	WCWRFlushErr: {
		"the request was not carried out, since the QP is in ERR, or in SQE",
		"this is a consequence: look for the first completion of the QP with another status, for an asynchronous event, and for a peer that disconnected",
	},
	WCMWBindErr: {
		"a memory window could not be bound, or LOCAL_INV could not invalidate its key",
		"check that the region has MW_BIND, and for remote writes LOCAL_WRITE, that its range and PD fit, and that a window of type 2 is invalidated before it is bound again, and only while it is bound",
	},
	WCBadRespErr: {
		"the answer of the peer is not one to the request that it answers",
		"capture the packets: the peer's adapter, or a device on the path, violates the protocol",
	},
	WCLocAccessErr: {
		"the memory of a receive could not be written for the data that came with it",
		"check the access rights of the region",
	},
	WCRemInvReqErr: {
		"the peer refused the request as invalid",
		"see whether the peer's receive is as long as the message, whether its QP has the rights for this operation, and how many READs and atomics it takes (MaxDestRDAtomic); over XRC, whether RemoteSRQN is the number of an SRQ in the domain of the peer's target",
	},
	WCRemAccessErr: {
		"the peer's memory region does not allow this access",
		"check RKey, RemoteAddr and length, that the region is registered still, of the PD of the peer's QP, and has the remote rights; the QP's AccessFlags count too",
	},
	WCRemOpErr: {
		"the peer could not complete the request, for reasons of its own",
		"look at the peer's completions, such as an error of the receive that the message met",
	},
	WCRetryExcErr: {
		"the peer acknowledged nothing, however often it was sent",
		"see whether the peer is there, its QP in RTR or RTS with this QPN and PSN, UDP port 4791 open in both directions, the path MTU no larger than the way takes; Timeout and RetryCnt of the QP say how long to try",
	},
	WCRNRRetryExcErr: {
		"the peer had no receive posted, however often the message was sent",
		"post receives at the peer before they are needed, or set RNRRetry to 7, which means unlimited retries",
	},
	WCLocRDDViolErr: {
		"the QP and the EE context, or the receiver of the message, are of different reliable datagram domains",
		"make both with the same RDD",
	},
	WCRemInvRDReqErr: {
		"the peer refused the reliable datagram",
		"check the number of the peer's QP, its Q_Key and its reliable datagram domain",
	},
	WCRemAbortErr: {
		"the peer ended the message in the middle",
		"check the state of the peer's QP, and try again",
	},
	WCInvEECNErr: {
		"there is no EE context of the number that the request names",
		"check the EECN, and that the EE context was not destroyed",
	},
	WCInvEECStateErr: {
		"the EE context is in a state in which it sends nothing",
		"move it to RTS, and look at its asynchronous events",
	},
	WCFatalErr: {
		"the adapter has failed",
		"close it and open it again",
	},
	WCRespTimeoutErr: {
		"a responder's timer ran out",
		"see whether the requester is there",
	},
	WCGeneralErr: {
		"the adapter gives no reason",
		"look at its asynchronous events",
	},
}
