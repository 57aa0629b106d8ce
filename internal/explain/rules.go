package explain

import "github.com/softhca/softhca/ib"

// ruleID is an index of the table.
type ruleID uint8

const (
	requestLost ruleID = iota
	requestLostUpstream
	requestLate
	requestDuplicated
	sequenceNAK
	timeoutRepeat
	answerLost
	nakLost
	readResponseLost
	readResponseGap
	answerMissing
	atomicReplayed
	noAnswer
	wentSilent
	answersIgnored
	answersLost
	answersLate
	answersDoubtful
	retriesUsedUp
	psnAhead
	psnBehind
	rnrWait
	rnrUnresolved
	rnrUnheard
	rnrOrSilence
	rnrWaits
	keyInvalidated
	keyGone
	writeRefused
	readRefused
	atomicRefused
	flushRefused
	accessRefused
	invalidRequest
	unalignedAtomic
	queueUnknown
	operationalError
	invalidRDRequest
	refusalUnheard
	refusalLate
	unknownNAK
	nakRefuted
	nakDoubtful
	invalidateFailed
	resync
	migrated
	lengthWrong
	ucGap
	ucCut
	ucLength
	udQKeyWrong
	udQKeys
	udTooLong
	pkeysDiffer
	congestionMark
	congestionNotice
	icrcID
	icrcFragmentFlag
	icrcPort
	icrcAddress
	icrcDamaged
	icrcLost
	icrcSender
	badOpcode
	badVersion
	badLength
	badPad
	answerSpoilt
	unfinished
	oneDirection
	nothingAnswers
	noPackets
	faultAsked
	faultDelayed
	faultLost
	cmNobodyListens
	cmRefused
	cmGaveUp
	cmStale
	cmBadPath
	cmNoResources
	cmUnsupported
	cmOtherReject
	cmREQRepeated
	cmREQUnanswered
	cmREPRepeated
	cmDREQRepeated
	cmDREQUnanswered
	cmSlow
	cmLAPRepeated
	cmLAPUnanswered
	cmAlternateRefused
	sidrRefused
	sidrRepeated
	sidrUnanswered
	completionError
	callFailed
	cqOverrun
	numRules
)

var table = [numRules]Rule{
	requestLost: {
		Name: "request-lost", Severity: Repaired, Side: Network, Title: "a request was lost after it passed the capture point",
		Means: "The request was captured, but the responder reported its PSN missing by a NAK. The requester sent it again.",
		Try:   "Look for drops between the capture point and the responder: its receive queue, its socket buffer, a switch without flow control.",
	},
	requestLostUpstream: {
		Name: "request-lost-upstream", Severity: Repaired, Side: Network, Title: "a request was lost or delayed before the capture point",
		Means: "The capture skips a PSN, which came only after a NAK of the responder or a timeout of the requester.",
		Try:   "Look for drops between the requester and the capture point: its send queue, its port, a switch.",
	},
	requestLate: {
		Name: "request-late", Severity: Repaired, Side: Network, Title: "requests arrived out of order",
		Means: "A PSN was skipped and came a moment later, without a NAK or a timeout: the network delivers out of order.",
		Try:   "Look for several paths without a fixed hash of the flow (the UDP source port), or for a bond that spreads the packets of a flow.",
	},
	requestDuplicated: {
		Name: "request-duplicated", Severity: Repaired, Side: Network, Title: "requests were duplicated",
		Means: "The same request came twice within 250 µs, without a NAK: the network delivered it twice, or its sender repeated it while this host was too busy to receive the first.",
		Try:   "Look for a mirror port or a loop that feeds copies back; a capture on two interfaces at once shows the same. On a busy host you need not do anything.",
	},
	sequenceNAK: {
		Name: "sequence-nak", Severity: Repaired, Side: Network, Title: "a responder reported missing requests",
		Means: "The capture has a NAK for a missing PSN, but not the requests. So it does not show where they were lost, nor whether they came again.",
		Try:   "Capture both directions, at the responder.",
	},
	timeoutRepeat: {
		Name: "timeout-repeat", Severity: Repaired, Side: Network, Title: "a request was repeated after a timeout",
		Means: "No answer came before a timer of the requester expired. The request or its answer was lost, or the answer was late, for example because the host is busy; this capture does not show which.",
		Try:   "Capture at the other end too. If the request is missing there, the request was lost; if its answer is there, the answer was lost.",
	},
	answerLost: {
		Name: "answer-lost", Severity: Repaired, Side: Network, Title: "an answer was lost or late after it passed the capture point",
		Means: "The answer was captured, but the requester sent its request again.",
		Try:   "Look for drops between the capture point and the requester, and for a retry timer that is shorter than the round trip.",
	},
	nakLost: {
		Name: "nak-lost", Severity: Repaired, Side: Network, Title: "a NAK did not reach the requester",
		Means: "The responder reported a missing PSN, but the requester sent it only when its retry timer expired, much later.",
		Try:   "Look for drops between the capture point and the requester.",
	},
	readResponseLost: {
		Name: "read-response-lost", Severity: Repaired, Side: Network, Title: "responses to a READ were lost after they passed the capture point",
		Means: "The responses were captured, but the requester requested that part again.",
		Try:   "Look for drops between the capture point and the requester: READ responses arrive in bursts that its buffers must take.",
	},
	readResponseGap: {
		Name: "read-response-lost-upstream", Severity: Repaired, Side: Network, Title: "responses to a READ were lost before the capture point",
		Means: "The captured responses skip PSNs, and the requester requested that part again.",
		Try:   "Look for drops between the responder and the capture point.",
	},
	answerMissing: {
		Name: "answer-skipped", Severity: Repaired, Side: Network, Title: "the answer to a READ or an atomic is missing while a later request was answered",
		Means: "The answer to a later request shows the requester that this answer was lost, so it repeats the request.",
		Try:   "Look for drops between the responder and the capture point.",
	},
	atomicReplayed: {
		Name: "atomic-replayed", Severity: Repaired, Side: Network, Title: "an atomic came again, and the responder repeated its answer",
		Means: "The responder returned the same original value twice. It did not execute the atomic again, as the protocol requires.",
		Try:   "If it is rare, you need not do anything: the first answer was lost.",
	},
	noAnswer: {
		Name: "no-answer", Severity: Failed, Side: Responder, Title: "the requester repeated its request and never got an answer",
		Means: "The capture has no answer on this connection. The queue pair named by the request does not exist, is not yet in RTR, is in an error state, " +
			"knows another address of the requester, or cannot be reached on UDP port 4791.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "Check that the responder's queue pair is in RTR or RTS, that both sides exchanged the right QP numbers and GIDs, and that no firewall drops UDP port 4791.",
	},
	wentSilent: {
		Name: "went-silent", Severity: Failed, Side: Responder, Title: "the responder stopped answering",
		Means:     "The responder answered earlier requests; later ones were repeated and got no answer. Its program ended, its queue pair went to ERR, or the path was cut.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "Check whether the responder's program still runs, and what its last completion was; then check whether its host can be reached.",
	},
	answersIgnored: {
		Name: "answers-ignored", Severity: Unknown, Side: Requester, Title: "the requester repeats its requests although answers pass the capture point",
		Means: "The answers are lost or delayed between the capture point and the requester, or the requester drops them because of a wrong destination QP, address or P_Key. " +
			"If the last one did not reach it either, its retries were used up (RETRY_EXC_ERR); the capture does not show that.",
		Try: "Check the requester's completions. Check that the responder's dest_qp_num and address vector are those of the requester, and the requester's counters of drops.",
	},
	answersLost: {
		Name: "answers-lost-by-rule", Severity: Failed, Side: Both, Title: "a fault rule lost or changed the answers to a request until its retries were used up",
		Means:     "The answers were captured, but did not reach the requester. It repeated its request several times and then stopped.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "Run without --fault.",
	},
	answersLate: {
		Name: "answers-late", Severity: Failed, Side: Both, Title: "answers came after the requester had given up",
		Means: "The requester repeated its request without an answer. Then it was silent for several times its retry interval, so its retries were used up. " +
			"The answers came only after that, and the requester sent nothing more.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "Find what delays requests or answers: a queue on the way, or a busy host of the responder. A greater timeout makes the requester wait longer.",
	},
	answersDoubtful: {
		Name: "answers-perhaps-late", Severity: Unknown, Side: Both, Title: "answers came so late that the requester may have given up",
		Means: "The requester repeated its request. The answer came after the next repeat was due, and the requester sent nothing more. Either it had nothing more to " +
			"send, or its retries were used up before the answer came (RETRY_EXC_ERR). The capture does not contain its number of retries (retry_cnt).",
		Try: "Check the requester's completions. Find what delays requests or answers: a queue on the way, or a busy host of the responder.",
	},
	retriesUsedUp: {
		Name: "retries-used-up", Severity: Failed, Side: Network, Title: "packets were lost until the retries were used up",
		Means: "The responder answers, and reports missing packets. The requester repeated them several times and then stopped. " +
			"Each repeat lost packets again.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "Find where packets are lost: the other findings say on which side of the capture point. A greater retry_cnt only hides the problem.",
	},
	psnAhead: {
		Name: "psn-ahead", Severity: Failed, Side: Both, Title: "the two sides disagree on the first PSN: the requester is ahead",
		Means: "The responder, which has executed nothing yet (MSN 0), asks for a PSN that the requester never sent. " +
			"The requester's sq_psn and the responder's rq_psn differ.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "Set rq_psn of each side to sq_psn of the other.",
	},
	psnBehind: {
		Name: "psn-behind", Severity: Failed, Side: Both, Title: "the two sides disagree on the first PSN: the requester is behind",
		Means: "The responder treats the first requests as duplicates and acknowledges another PSN (MSN 0: it has executed nothing). " +
			"The requester's sq_psn and the responder's rq_psn differ.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "Set rq_psn of each side to sq_psn of the other.",
	},
	rnrWait: {
		Name: "rnr-wait", Severity: Repaired, Side: Responder, Title: "the receiver was not ready: no receive was posted",
		Means: "The responder answered with an RNR NAK. The requester waited for the time in the NAK and sent the request again.",
		Try:   "Post more receives, and post them before the peer can send. min_rnr_timer sets the time of each wait.",
	},
	rnrUnresolved: {
		Name: "rnr-unresolved", Severity: Failed, Side: Responder, Title: "the receiver was not ready, up to the end of the capture",
		Means: "The last packet is an RNR NAK: no receive was posted. The request fails after rnr_retry of them; " +
			"if the capture ends before that, the requester may still wait.",
		Requester: Statuses{ib.WCRNRRetryExcErr},
		Try:       "Post receives at the responder before the requester sends; check whether its program still polls its completion queue.",
	},
	rnrUnheard: {
		Name: "rnr-unheard", Severity: Failed, Side: Network, Title: "RNR NAKs did not reach the requester in time, and its retries were used up",
		Means: "The responder answered each request with an RNR NAK. RNR NAKs alone never fail the request (rnr_retry 7), " +
			"but the requester did not wait for the times in them: its retry timer expired, and after retry_cnt repeats the request fails.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "Look for drops and delays between the responder and the requester, and for a timeout that is shorter than the round trip. Then post receives earlier.",
	},
	rnrOrSilence: {
		Name: "rnr-or-silence", Severity: Failed, Side: Both, Title: "the receiver was not ready, and the requester did not get every RNR NAK",
		Means: "The last packet is an RNR NAK, and some repeats came without the wait that the RNR NAKs ask for. Either the requester got rnr_retry of them, " +
			"or they were lost or late and its retries were used up; with rnr_retry 7 it is always the latter. The capture does not show which.",
		Requester: Statuses{ib.WCRNRRetryExcErr, ib.WCRetryExcErr},
		Try:       "Post receives at the responder before the requester sends. Look for drops and delays between the responder and the requester.",
	},
	rnrWaits: {
		Name: "rnr-waits", Severity: Unknown, Side: Responder, Title: "the receiver was not ready, and the requester waits for it indefinitely",
		Means: "The last packet is an RNR NAK. After each RNR NAK the requester waited for the time in it. RNR NAKs never fail the request (rnr_retry is 7: the connection managers agreed on it, or " +
			"more than 6 RNR NAKs in a row show it). The capture ends there, or a program ended the connection.",
		Try: "Post receives at the responder; check whether its program still polls its completion queue.",
	},
	keyInvalidated: {
		Name: "key-invalidated", Severity: Failed, Side: Requester, Title: "a request was refused: an earlier SEND with invalidate invalidated its R_Key",
		Means:     "The responder executed a SEND with invalidate that named this R_Key, and answered a later request that uses the key with a remote access error.",
		Requester: Statuses{ib.WCRemAccessErr},
		Try:       "Do not use a key after a SEND that invalidates it: the responder must bind a memory window, or register memory, again and send the new key.",
	},
	keyGone: {
		Name: "key-gone", Severity: Failed, Side: Both, Title: "a request was refused: its R_Key no longer gives the access that it gave before",
		Means: "The responder executed an earlier request of the same kind, with the same R_Key, for the same bytes, and answered this one with a remote access error. In between, its program " +
			"invalidated the key (LOCAL_INV), unbound, bound again or deallocated the memory window, or deregistered or re-registered the region; or a fault rule there refuses requests.",
		Requester: Statuses{ib.WCRemAccessErr},
		Try: "Find where the responder's program ends the life of the key, and have it wait until the requester has sent its last request with the key. " +
			"A window that is bound again has a new key: send it to the requester.",
	},
	writeRefused: {
		Name: "write-refused", Severity: Failed, Side: Both, Title: "a WRITE was refused: remote access error",
		Means:     "The R_Key is wrong or not of this protection domain, the range lies outside the region, or the region lacks REMOTE_WRITE.",
		Requester: Statuses{ib.WCRemAccessErr}, Try: "Compare R_Key, address and length in the request with the region that the responder registered, and its access flags.",
	},
	readRefused: {
		Name: "read-refused", Severity: Failed, Side: Both, Title: "a READ was refused: remote access error",
		Means:     "The R_Key is wrong or not of this protection domain, the range lies outside the region, or the region lacks REMOTE_READ.",
		Requester: Statuses{ib.WCRemAccessErr}, Try: "Compare R_Key, address and length in the request with the region that the responder registered, and its access flags.",
	},
	atomicRefused: {
		Name: "atomic-refused", Severity: Failed, Side: Both, Title: "an atomic was refused: remote access error",
		Means:     "The R_Key is wrong, the address lies outside the region, or the region lacks REMOTE_ATOMIC.",
		Requester: Statuses{ib.WCRemAccessErr}, Try: "Compare R_Key and address with the region that the responder registered, and its access flags.",
	},
	flushRefused: {
		Name: "flush-refused", Severity: Failed, Side: Both, Title: "a FLUSH was refused: remote access error",
		Means:     "The R_Key is wrong or not of this protection domain, the range lies outside the region, the region lacks FLUSH_GLOBAL or FLUSH_PERSISTENT, or the storage failed.",
		Requester: Statuses{ib.WCRemAccessErr}, Try: "Compare the type of the FLUSH with the access flags of the region that the responder registered. FLUSH_PERSISTENT needs a mapped file.",
	},
	accessRefused: {
		Name: "access-refused", Severity: Failed, Side: Both, Title: "a request was refused: remote access error",
		Means:     "The R_Key is wrong or not of this protection domain, the range lies outside the region, or the region lacks the right. Which operation it was is not in this capture.",
		Requester: Statuses{ib.WCRemAccessErr},
		Try:       "Capture both directions. Compare R_Key, address and length in the request with the region that the responder registered, and its access flags.",
	},
	invalidRequest: {
		Name: "invalid-request", Severity: Failed, Side: Both, Title: "a request was refused: remote invalid request",
		Means:     "The responder's queue pair does not allow the operation, its length or place in the message is wrong, or a FLUSH has a type that does not exist. Over XRC, no shared receive queue of the target's domain has the number in the request.",
		Requester: Statuses{ib.WCRemInvReqErr}, Try: "Check qp_access_flags and max_dest_rd_atomic of the responder, the path MTU of both sides, the size of the receive; over XRC remote_srqn.",
	},
	unalignedAtomic: {
		Name: "atomic-unaligned", Severity: Failed, Side: Requester, Title: "an atomic was refused: its address is not a multiple of 8",
		Means:     "COMPARE & SWAP, FETCH & ADD and ATOMIC WRITE need an address that is a multiple of 8. The responder answered with a remote invalid request error.",
		Requester: Statuses{ib.WCRemInvReqErr}, Try: "Align the remote address to 8 bytes.",
	},
	queueUnknown: {
		Name: "srq-unknown", Severity: Failed, Side: Both, Title: "a request over XRC was refused: the responder has no such shared receive queue, or refuses another part of the request",
		Means: "The responder answered with a remote invalid request error, and executed no earlier request that names this shared receive queue. Most likely no queue of the target's XRC domain " +
			"has the number. Otherwise the causes are those of invalid-request.",
		Requester: Statuses{ib.WCRemInvReqErr},
		Try: "Compare remote_srqn of the request with the number that ibv_get_srq_num returns at the responder: a queue that is created again has another number. " +
			"Check that the queue and the target (XRC_RECV) are in the same XRC domain.",
	},
	operationalError: {
		Name: "operational-error", Severity: Failed, Side: Responder, Title: "the responder could not complete a request: remote operational error",
		Means:     "The responder's receive has a wrong L_Key, or it is smaller than the message (Linux Soft-RoCE reports this error for it).",
		Requester: Statuses{ib.WCRemOpErr}, Responder: Statuses{ib.WCLocQPOpErr, ib.WCLocProtErr},
		Try: "See the responder's receive completion; check the size and the L_Key of its receives.",
	},
	invalidRDRequest: {
		Name: "invalid-rd-request", Severity: Failed, Side: Both, Title: "a reliable datagram was refused: invalid RD request",
		Means:     "The queue pair that it names does not exist, is in another RD domain, or has another Q_Key.",
		Requester: Statuses{ib.WCRemInvRDReqErr}, Try: "Compare the QP number and Q_Key in the request with the responder's.",
	},
	refusalUnheard: {
		Name: "refusal-unheard", Severity: Failed, Side: Network, Title: "a request was refused, and the NAK did not reach the requester",
		Means: "The responder answered by a NAK that ends the request, and its queue pair answers no more. The requester went on to repeat, " +
			"so it did not get the NAK: its retries were used up. The detail names the refusal.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "See what the responder refused. Then look for drops between the responder and the requester.",
	},
	refusalLate: {
		Name: "refusal-late", Severity: Failed, Side: Both, Title: "a request was refused, and the NAK may not have reached the requester",
		Means: "The responder answered by a NAK that ends the request. The requester repeated the request after it, an earlier request has no answer in the capture, " +
			"or a fault rule lost, changed or delayed the NAK. If these did not reach the requester in time, its retries were used up. The detail names the refusal.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "Check what the responder refused, and the requester's completion.",
	},
	unknownNAK: {
		Name: "unknown-nak", Severity: Failed, Side: Responder, Title: "a NAK has a reserved code",
		Means: "The syndrome is reserved. Adapters ignore the NAK or fail the request.",
		Try:   "Check whether the responder's adapter and its firmware are up to date.",
	},
	nakRefuted: {
		Name: "nak-refuted", Severity: Repaired, Side: Responder, Title: "a NAK refused a request that the responder acknowledged later",
		Means: "A responder that refuses a request goes to ERR and acknowledges nothing more. This one acknowledged the request, or a later one, after the NAK. " +
			"So the NAK is forged by a third host that uses the responder's address, or the responder is broken. The detail names the refusal. " +
			"The NAK causes no error completion: a requester that verifies NAKs, as softhca does, continues.",
		Try: "Find the source of the NAK: compare its Ethernet source address, its TTL and its IPv4 identification with those of the responder's other packets.",
	},
	nakDoubtful: {
		Name: "nak-perhaps-refuted", Severity: Unknown, Side: Both, Title: "a NAK refused a request that came again and was acknowledged",
		Means: "The responder acknowledged nothing before the NAK. Afterwards the requests came again, and the responder acknowledged the refused one. " +
			"Either the NAK is forged or the responder is broken, and then it causes no error completion. " +
			"Or the request failed, and the connection was set up again with the same queue pairs and PSNs. The detail names the refusal.",
		Try: "Check the requester's completions. If there is no error, find the source of the NAK, as for nak-refuted.",
	},
	invalidateFailed: {
		Name: "invalidate-failed", Severity: Failed, Side: Both, Title: "SEND with invalidate was acknowledged but not counted as executed",
		Means:     "The MSN did not advance: the R_Key to invalidate was wrong. The requester sees success, the receiver an error.",
		Responder: Statuses{ib.WCRemInvReqErr},
		Try:       "Check which R_Key the request invalidates: it must be a bound memory window of type 2 of that queue pair.",
	},
	resync: {
		Name: "rd-resync", Severity: Repaired, Side: Requester, Title: "a reliable datagram was abandoned or suspended, and the channel resynchronised",
		Means: "The requester sent a RESYNC to end the message in flight: the message failed, or the requester sends it again when the receiver is ready.",
		Try:   "Check the completion of the message before the RESYNC: it failed, the receiver had posted no receive for it, or its queue pair was reset.",
	},
	migrated: {
		Name: "migrated", Severity: Repaired, Side: Network, Title: "a connection moved to its alternate path",
		Means: "Requests of the same queue pair continue between other addresses. The old path failed, or a program requested the migration.",
		Try:   "Repair the old path. Load a new alternate path; otherwise the next failure ends the connection.",
	},
	lengthWrong: {
		Name: "length-wrong", Severity: Failed, Side: Requester, Title: "a packet has a length that its position in the message does not allow",
		Means:     "FIRST and MIDDLE packets of one connection must have the path MTU's length. A device on the way cut the packet, or the sender is wrong.",
		Requester: Statuses{ib.WCRemInvReqErr}, Try: "Check the path MTU of both queue pairs and the sender's adapter.",
	},
	ucGap: {
		Name: "uc-gap", Severity: Lost, Side: Network, Title: "packets of an unreliable connection are missing",
		Means: "PSNs are missing. UC does not retransmit: the messages of these packets are lost, or the capture missed the packets.",
		Try:   "Look for drops between the sender and the capture point, unless the capture itself dropped packets.",
	},
	ucCut: {
		Name: "uc-message-cut", Severity: Lost, Side: Network, Title: "a message of an unreliable connection has no beginning or no end",
		Means: "The receiver drops such a message, and no program gets an error.",
		Try:   "Look for drops between the sender and the capture point; check whether the sender stopped.",
	},
	ucLength: {
		Name: "uc-length-wrong", Severity: Lost, Side: Requester, Title: "a message of an unreliable connection has a wrong length",
		Means: "FIRST and MIDDLE packets must have the path MTU's length, and the packets of a WRITE as many bytes as the first one announces. The receiver drops the message.",
		Try:   "Check the path MTU of both queue pairs, the sender's adapter, and devices on the way that cut packets.",
	},
	udQKeyWrong: {
		Name: "ud-qkey-wrong", Severity: Lost, Side: Requester, Title: "datagrams do not have the Q_Key that their receiver announced",
		Means: "The SIDR_REP named the Q_Key of the queue pair. The receiver drops datagrams with another Q_Key, and no program gets an error.",
		Try:   "Set remote_qkey of the work requests to the Q_Key of the SIDR_REP (rdma_cm: param.ud.qkey of the ESTABLISHED event).",
	},
	udTooLong: {
		Name: "ud-too-long", Severity: Lost, Side: Requester, Title: "a datagram is longer than the largest path MTU",
		Means: "A datagram must fit into one packet of at most 4096 bytes. The receiver drops it.",
		Try:   "Send at most the active MTU of the port; check the sender's adapter.",
	},
	udQKeys: {
		Name: "ud-qkeys-differ", Severity: Lost, Side: Requester, Title: "datagrams from one queue pair to another have different Q_Keys",
		Means: "A queue pair has one Q_Key. It drops datagrams with another one, and no program gets an error.",
		Try:   "Check remote_qkey of the work requests.",
	},
	pkeysDiffer: {
		Name: "pkeys-differ", Severity: Lost, Side: Both, Title: "the two directions of a connection have different P_Keys",
		Means: "An adapter drops packets of another partition, and no program gets an error.",
		Try:   "Check pkey_index of both queue pairs, and the P_Key table of both ports.",
	},
	congestionMark: {
		Name: "congestion-mark", Severity: Repaired, Side: Network, Title: "packets were marked because of congestion",
		Means: "A switch or router set the ECN field to CE.",
		Try:   "Check the queues on the path, and whether the sender reacts to congestion notifications.",
	},
	congestionNotice: {
		Name: "congestion-notice", Severity: Repaired, Side: Network, Title: "congestion notifications were sent",
		Means: "The receiver of marked packets asked their sender to slow down (CNP).",
		Try:   "Check the queues on the path: the notifications slow the sender down.",
	},
	icrcID: {
		Name: "icrc-id-rewritten", Severity: Failed, Side: Network, Title: "the IPv4 identification was rewritten on the way",
		Means: "The ICRC is right for another identification. A router, a NAT or a segmentation offload changed a field that the ICRC covers; every receiver drops such packets.",
		Try:   "Make sure that no device on the path changes IP headers of UDP port 4791; at the sender, check whether a tunnel or a firewall rewrites the identification.",
	},
	icrcFragmentFlag: {
		Name: "icrc-df-cleared", Severity: Failed, Side: Network, Title: "the don't-fragment flag was changed on the way",
		Means: "The ICRC is right for the usual value of the flag. If a tunnel or firewall clears the flag, every receiver drops the packet.",
		Try:   "Configure the device not to clear the don't-fragment flag (for example by \"scrub no-df\") for UDP port 4791.",
	},
	icrcPort: {
		Name: "icrc-port-translated", Severity: Failed, Side: Network, Title: "the UDP source port was translated on the way",
		Means: "The ICRC is right for another source port. A NAT changed the port, which the ICRC covers.",
		Try:   "RoCEv2 does not pass a NAT. Route between the hosts, or tunnel.",
	},
	icrcAddress: {
		Name: "icrc-address-translated", Severity: Failed, Side: Network, Title: "an IP address was translated on the way",
		Means: "The ICRC is right for another address in this capture. A NAT changed the address, which the ICRC covers.",
		Try:   "RoCEv2 does not pass a NAT. Route between the hosts, or tunnel.",
	},
	icrcDamaged: {
		Name: "icrc-damaged", Severity: Repaired, Side: Network, Title: "packets were damaged on the way",
		Means: "The ICRC is wrong and no known rewriting explains it. The receiver drops the packet; a reliable connection repeats it.",
		Try:   "Look for a bad cable, port or memory on the way; the Ethernet FCS does not protect packets inside devices.",
	},
	icrcLost: {
		Name: "icrc-lost-message", Severity: Lost, Side: Network, Title: "packets of unreliable messages were damaged on the way",
		Means: "The ICRC is wrong and no known rewriting explains it. The receiver drops the packet, and so the message is lost: UC and UD do not retransmit.",
		Try:   "Look for a bad cable, port or memory on the way; the Ethernet FCS does not protect packets inside devices.",
	},
	icrcSender: {
		Name: "icrc-sender", Severity: Failed, Side: Requester, Title: "every packet of a sender has a wrong ICRC",
		Means: "The sender computes the ICRC wrongly, its adapter fills it in after the capture point, or a device on the path rewrites every packet.",
		Try:   "Capture at the receiver: if it is wrong there too, check the sender's driver, and devices on the path that rewrite headers.",
	},
	badOpcode: {
		Name: "malformed-opcode", Severity: Unknown, Side: Network, Title: "packets with an opcode that is not assigned",
		Means: "Such a packet was damaged on the way, or another protocol uses UDP port 4791. Adapters drop it. Its content is unknown.",
		Try:   "Find the sender.",
	},
	badVersion: {
		Name: "malformed-version", Severity: Unknown, Side: Network, Title: "packets of another transport version",
		Means: "Only version 0 exists. Such a packet was damaged on the way, or another protocol uses UDP port 4791. Adapters drop it.",
		Try:   "Find the sender.",
	},
	badLength: {
		Name: "malformed-length", Severity: Unknown, Side: Network, Title: "packets too short for their headers, or not a multiple of 4 bytes long",
		Means: "The packet was cut on the way. Adapters drop it.",
		Try:   "Look for a device that cuts packets, or an MTU that is smaller than the path MTU needs.",
	},
	badPad: {
		Name: "malformed-pad", Severity: Unknown, Side: Network, Title: "packets with more padding than payload",
		Means: "The pad count is wrong: the packet was damaged on the way. Adapters drop it.",
		Try:   "Find the sender.",
	},
	answerSpoilt: {
		Name: "answer-spoilt", Severity: Unknown, Side: Both, Title: "a fault rule lost or changed an answer, and the requester did not repeat its request",
		Means: "The answer was captured, but did not reach the requester. The requester did not send the request again: it has no retries (retry_cnt 0), " +
			"its program or queue pair ended, or the capture ended.",
		Try: "Check the requester's completions.",
	},
	unfinished: {
		Name: "unanswered", Severity: Unknown, Side: Both, Title: "requests had no answer when the capture ended",
		Means: "The capture does not show whether they were answered later, or how they completed. The capture ended too early, or the requester stopped: " +
			"its program or queue pair ended.",
		Try: "Check the requester's completions, or capture for longer.",
	},
	oneDirection: {
		Name: "one-direction", Severity: Unknown, Side: Both, Title: "only one direction of a connection is in the capture",
		Means: "The answers or the requests are missing: they were not captured, or nothing answered. So the capture does not show the outcome of the requests.",
		Try:   "Capture both directions: on one of the two hosts, without a filter for one address.",
	},
	nothingAnswers: {
		Name: "no-acknowledgements", Severity: Unknown, Side: Responder, Title: "the capture does not show whether messages of UC or UD arrived",
		Means: "UC and UD have no acknowledgements, and the sender gets no error. A receiver silently drops a message if no receive is posted or the receive is too short, " +
			"if the Q_Key or P_Key is wrong, if a WRITE has a wrong R_Key, address or length, or if its queue pair is not in RTR or RTS.",
		Try: "Check the completions and the drop counters at the receiver.",
	},
	noPackets: {
		Name: "no-packets", Severity: Unknown, Side: Both, Title: "no RoCEv2 packet (UDP port 4791) is in this capture",
		Means: "The packets passed another interface, a filter excluded them, none were sent during the capture, or they are not RoCEv2: RoCEv1 and InfiniBand have no UDP port. " +
			"The interfaces of a host do not show packets of RDMA hardware.",
		Try: "Capture on the interface of the adapter (loopback: lo) with the filter \"udp port 4791\"; for hardware, use the vendor's tool. For programs on softhca, use --capture or --explain; at lo, packets of programs of one user appear only with --wire udp.",
	},
	faultAsked: {
		Name: "fault-asked-for", Severity: Repaired, Side: Both, Title: "a fault rule (--fault) caused this",
		Means: "Comments in the capture name the rule that lost, delayed or changed packets.",
		Try:   "Run without --fault.",
	},
	faultDelayed: {
		Name: "fault-delayed", Severity: Unknown, Side: Both, Title: "a fault rule (--fault) delayed the last packets",
		Means: "Comments in the capture name the rule. The capture does not show when the delayed packets continued, nor whether the requester was still waiting; " +
			"too few requests follow. If it was not waiting, it got RETRY_EXC_ERR.",
		Try: "Check the requester's completions, or run without --fault.",
	},
	faultLost: {
		Name: "fault-lost-message", Severity: Lost, Side: Both, Title: "a fault rule (--fault) lost an unreliable message",
		Means: "Comments in the capture name the rule. UC and UD do not retransmit.",
		Try:   "Run without --fault.",
	},
	cmNobodyListens: {
		Name: "cm-nobody-listens", Severity: Failed, Side: Responder, Title: "no program listens on that port: REJ, invalid service ID",
		Means: "The connection request arrived, and no program of the responder listens on its service ID. rdma_cm reports REJECTED with status 8.",
		Try:   "Start the server, or correct the port and the port space.",
	},
	cmRefused: {
		Name: "cm-refused", Severity: Failed, Side: Responder, Title: "the program refused the connection: REJ, consumer reject",
		Means: "The program called rdma_reject, or ended before it answered the request. rdma_cm reports REJECTED with status 28.",
		Try:   "Read the log of that program; the private data of the REJ may contain the reason.",
	},
	cmGaveUp: {
		Name: "cm-gave-up", Severity: Failed, Side: Both, Title: "one side gave up the connection: REJ, timeout",
		Means: "The sender of the REJ waited too long for the next message, or its program ended.",
		Try:   "Find the message before the REJ that was not answered.",
	},
	cmStale: {
		Name: "cm-stale", Severity: Failed, Side: Both, Title: "the peer still has an old connection of that queue pair: REJ, stale connection",
		Means: "A connection that one side has forgotten still uses the QP number or communication ID. The next attempt usually works.",
		Try:   "Try again; find out why the last connection ended without a DREQ.",
	},
	cmBadPath: {
		Name: "cm-bad-path", Severity: Failed, Side: Both, Title: "the peer cannot use the path: REJ about an address or a path attribute",
		Means: "The REJ names the attribute: GID, LID, service level, traffic class, hop limit, packet rate, flow label or redirection.",
		Try:   "Check the addresses of both sides: the GID must be of the port that the request arrived at.",
	},
	cmNoResources: {
		Name: "cm-no-resources", Severity: Failed, Side: Responder, Title: "the peer had no resources for the connection",
		Means: "The peer has no queue pair or EE context left, or allows fewer outstanding READs and atomics than the request asks for.",
		Try:   "Request fewer responder_resources, or check the limits of the peer.",
	},
	cmUnsupported: {
		Name: "cm-unsupported", Severity: Failed, Side: Both, Title: "the peer does not support what the request asks for",
		Means: "The REJ names the parameter: the transport service, the path MTU, the RNR retry count, a version or an option.",
		Try:   "Compare both programs' parameters; the transport service must be the same.",
	},
	cmOtherReject: {
		Name: "cm-rejected", Severity: Failed, Side: Both, Title: "the connection was rejected",
		Means: "The REJ names the reason, for example an unknown connection.",
		Try:   "The detail of the finding has the reason.",
	},
	cmREQRepeated: {
		Name: "cm-req-repeated", Severity: Repaired, Side: Network, Title: "a connection request was repeated",
		Means: "No answer came in time: the REQ or its answer was lost, or the peer is slow.",
		Try:   "Look for drops. If the server needs long to accept, let it send an MRA.",
	},
	cmREQUnanswered: {
		Name: "cm-req-unanswered", Severity: Failed, Side: Responder, Title: "a connection request was repeated and never answered",
		Means: "No host or adapter has that address, or a firewall drops UDP port 4791. rdma_cm reports UNREACHABLE with -ETIMEDOUT.",
		Try:   "Check address and route, that the peer has an RDMA device on that interface, and that UDP port 4791 is open.",
	},
	cmREPRepeated: {
		Name: "cm-rep-repeated", Severity: Repaired, Side: Network, Title: "a REP was repeated: the RTU, or the REP, was lost",
		Means: "The passive side accepted the connection, but the RTU or the first data packet did not arrive in time.",
		Try:   "Look for drops between the two hosts.",
	},
	cmDREQRepeated: {
		Name: "cm-dreq-repeated", Severity: Repaired, Side: Network, Title: "a disconnect request was repeated",
		Means: "The DREQ or its DREP was lost.",
		Try:   "Look for drops between the two hosts.",
	},
	cmDREQUnanswered: {
		Name: "cm-dreq-unanswered", Severity: Repaired, Side: Responder, Title: "a disconnect request was repeated and never answered",
		Means: "The peer's program or host had already ended. The sender of the DREQ waits until its retries are used up; then the connection is closed.",
		Try:   "Check whether the peer still runs.",
	},
	cmSlow: {
		Name: "cm-slow", Severity: Repaired, Side: Responder, Title: "a program needs long to answer a connection request (MRA)",
		Means: "Its host asked the other side to wait longer (MRA).",
		Try:   "Check what the program does between the connection request and rdma_accept.",
	},
	cmLAPRepeated: {
		Name: "cm-lap-repeated", Severity: Repaired, Side: Network, Title: "an alternate path was offered again (LAP)",
		Means: "The LAP or its APR was lost.",
		Try:   "Look for drops between the two hosts.",
	},
	cmLAPUnanswered: {
		Name: "cm-lap-unanswered", Severity: Repaired, Side: Responder, Title: "an alternate path was offered again and never answered (LAP)",
		Means: "The peer's connection manager or its program does not answer. The connection continues without an alternate path.",
		Try:   "Check whether the peer supports alternate paths: Linux's rdma_cm has no call for them.",
	},
	cmAlternateRefused: {
		Name: "cm-alternate-refused", Severity: Failed, Side: Responder, Title: "an alternate path was refused (APR)",
		Means: "The APR contains the reason. The connection continues without an alternate path.",
		Try:   "Check the addresses of the alternate path on both sides.",
	},
	sidrRefused: {
		Name: "sidr-refused", Severity: Failed, Side: Responder, Title: "the look-up of a UD service was refused (SIDR_REP)",
		Means: "No program serves that service ID over UD, or it refused.",
		Try:   "Start the server, or correct the port and the port space.",
	},
	sidrRepeated: {
		Name: "sidr-repeated", Severity: Repaired, Side: Network, Title: "the look-up of a UD service was repeated",
		Means: "The SIDR_REQ or its answer was lost.",
		Try:   "Look for drops between the two hosts.",
	},
	sidrUnanswered: {
		Name: "sidr-unanswered", Severity: Failed, Side: Responder, Title: "the look-up of a UD service was repeated and never answered",
		Means: "No host or adapter has that address, or a firewall drops UDP port 4791.",
		Try:   "Check address and route, and that UDP port 4791 is open.",
	},
	completionError: {
		Name: "completion-error", Severity: Failed, Side: Both, Title: "a work request failed, and no packet shows why",
		Means: "The adapter, which is one of softhca, says that the program got a completion with an error. The request failed on its own side before a packet was sent, or " +
			"the capture does not contain the packets.",
		Try: "The detail has the status, and for a memory error its reason: a wrong key, a missing right, or bytes outside of the region.",
	},
	callFailed: {
		Name: "call-failed", Severity: Failed, Side: Both, Title: "a call of the program failed",
		Means: "The adapter, which is one of softhca, refused the call. The program got an error number; the detail has its reason. Failed calls other than posts and ibv_modify_qp " +
			"are listed below FROM THE ADAPTERS only: programs use some to find out what an adapter can do.",
		Try: "Check the state of the queue pair and the arguments that the detail names.",
	},
	cqOverrun: {
		Name: "cq-overrun", Severity: Failed, Side: Both, Title: "a completion queue overran",
		Means: "A completion came when the queue was full. The adapter, which is one of softhca, raised CQ_ERR: completions are lost, and the queue pairs that use the queue went to ERR.",
		Try:   "Create the queue with room for all outstanding work requests of its queue pairs, and poll it in time.",
	},
}
