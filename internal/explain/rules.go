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
	writeRefused
	readRefused
	atomicRefused
	accessRefused
	invalidRequest
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
	numRules
)

var table = [numRules]Rule{
	requestLost: {
		Name: "request-lost", Severity: Repaired, Side: Network, Title: "a request was lost on its way, after it passed here",
		Means: "The request was seen here, and yet the responder asked for it by a NAK for a missing PSN. It was sent again.",
		Try:   "Look for drops between this place and the responder: its receive queue, its socket buffer, a switch without flow control.",
	},
	requestLostUpstream: {
		Name: "request-lost-upstream", Severity: Repaired, Side: Network, Title: "a request was lost, or came late, before it got here",
		Means: "A PSN was skipped here, and came only after a NAK of the responder or a timeout of the requester.",
		Try:   "Look for drops between the requester and this place: its send queue, its port, a switch.",
	},
	requestLate: {
		Name: "request-late", Severity: Repaired, Side: Network, Title: "requests overtook each other",
		Means: "A PSN was skipped and came a moment later, without being asked for: the network delivers out of order.",
		Try:   "Look for several paths without a fixed hash of the flow (the UDP source port), or for a bond that sprays packets.",
	},
	requestDuplicated: {
		Name: "request-duplicated", Severity: Repaired, Side: Network, Title: "requests came twice at once",
		Means: "The same request was seen twice within a quarter of a millisecond, and nothing had asked for it again: the network delivered it twice, or its sender repeated it while this host was too busy to take the first.",
		Try:   "Look for a mirror port or a loop that feeds copies back; a capture on two interfaces at once shows the same. On a busy host, nothing.",
	},
	sequenceNAK: {
		Name: "sequence-nak", Severity: Repaired, Side: Network, Title: "a responder asked for requests that did not reach it",
		Means: "A NAK for a missing PSN was seen. The requests are not in this capture, so it does not tell where they were lost, nor whether they came again.",
		Try:   "Capture both directions, at the responder.",
	},
	timeoutRepeat: {
		Name: "timeout-repeat", Severity: Repaired, Side: Network, Title: "a request was repeated after silence",
		Means: "Nothing answered until a timer of the requester ended. The request or its answer was lost, or the answer was late, as from a host that is busy; this capture does not tell which.",
		Try:   "Capture at the other end too. If the request is missing there, the request was lost; if its answer is there, the answer was lost.",
	},
	answerLost: {
		Name: "answer-lost", Severity: Repaired, Side: Network, Title: "an answer was lost on its way, or was too late, after it passed here",
		Means: "The answer was seen here, and the requester sent its request again all the same.",
		Try:   "Look for drops between this place and the requester, and for a retry timer that is shorter than the round trip.",
	},
	nakLost: {
		Name: "nak-lost", Severity: Repaired, Side: Network, Title: "a NAK did not reach the requester",
		Means: "The responder asked for a missing PSN, and only the retry timer, much later, made the requester send it.",
		Try:   "Look for drops between this place and the requester.",
	},
	readResponseLost: {
		Name: "read-response-lost", Severity: Repaired, Side: Network, Title: "responses to a READ were lost after they passed here",
		Means: "The responses were seen here, and the requester read that part again.",
		Try:   "Look for drops between this place and the requester: READ responses arrive in bursts that its buffers must take.",
	},
	readResponseGap: {
		Name: "read-response-lost-upstream", Severity: Repaired, Side: Network, Title: "responses to a READ were lost before they got here",
		Means: "The responses skip PSNs here, and the requester read that part again.",
		Try:   "Look for drops between the responder and this place.",
	},
	answerMissing: {
		Name: "answer-skipped", Severity: Repaired, Side: Network, Title: "the answer to a READ or an atomic is missing while a later request was answered",
		Means: "An answer to a later request tells the requester that this one was lost: it repeats the request.",
		Try:   "Look for drops between the responder and this place.",
	},
	atomicReplayed: {
		Name: "atomic-replayed", Severity: Repaired, Side: Network, Title: "an atomic came again and was answered from memory",
		Means: "The responder gave the same original value twice: it did not execute the atomic again, as it must not.",
		Try:   "Nothing, if it is rare: the first answer was lost.",
	},
	noAnswer: {
		Name: "no-answer", Severity: Failed, Side: Responder, Title: "the requester repeated its request and never got an answer",
		Means: "No answer on this connection was seen at all. The queue pair named by the request does not exist, is not yet in RTR, is in an error state, " +
			"knows another address of the requester, or cannot be reached on UDP port 4791.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "Check that the responder's queue pair is in RTR or RTS, that both sides exchanged the right QP numbers and GIDs, and that no firewall drops UDP port 4791.",
	},
	wentSilent: {
		Name: "went-silent", Severity: Failed, Side: Responder, Title: "the responder answered at first, then stopped answering",
		Means:     "The responder answered earlier requests; later ones were repeated and got no answer. Its program ended, its queue pair went to ERR, or the path was cut.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "See whether the responder's program still runs, and what its last completion was; then see whether the host can be reached.",
	},
	answersIgnored: {
		Name: "answers-ignored", Severity: Unknown, Side: Requester, Title: "answers pass here, and the requester repeats its requests all the same",
		Means: "The answers get lost or late between here and the requester, or it drops them: a wrong destination QP, address or P_Key. " +
			"If the last one did not reach it either, its retries were used up (RETRY_EXC_ERR); the capture does not tell.",
		Try: "See the requester's completions. Check that the responder's dest_qp_num and address vector are those of the requester, and the requester's counters of drops.",
	},
	answersLost: {
		Name: "answers-lost-by-rule", Severity: Failed, Side: Both, Title: "a rule of faults lost or changed the answers to a request, whose retries were used up",
		Means:     "The answers are in the capture and did not reach the requester. It repeated its request several times, and then sent no more.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "Run without --fault.",
	},
	answersLate: {
		Name: "answers-late", Severity: Failed, Side: Both, Title: "answers came after the requester had given up",
		Means: "The requester repeated its request in vain. Then it was silent for several times as long as before these repeats, so its retries were used up. " +
			"The answers came only after that, and the requester sent no more.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "Find what delays requests or answers: a queue on the way, or a busy host of the responder. A greater timeout lets the requester wait for longer.",
	},
	answersDoubtful: {
		Name: "answers-perhaps-late", Severity: Unknown, Side: Both, Title: "answers came so late that the requester may have given up",
		Means: "The requester repeated its request. The answer came later than another repeat was due, and the requester sent nothing more: either it had nothing more to " +
			"send, or its retries were used up before the answer came (RETRY_EXC_ERR). How many retries it has (retry_cnt) is not in the capture.",
		Try: "See the requester's completions. Find what delays requests or answers: a queue on the way, or a busy host of the responder.",
	},
	retriesUsedUp: {
		Name: "retries-used-up", Severity: Failed, Side: Network, Title: "losses went on until the retries were used up",
		Means: "The responder is alive and asks for what is missing. The requester repeated it several times, and then sent no more. " +
			"Each repeat lost packets again.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "Find where packets are lost: the other findings say on which side of this place. A greater retry_cnt only hides it.",
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
		Means: "The responder takes the first requests for old ones and acknowledges something else (MSN 0: it has executed nothing). " +
			"The requester's sq_psn and the responder's rq_psn differ.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "Set rq_psn of each side to sq_psn of the other.",
	},
	rnrWait: {
		Name: "rnr-wait", Severity: Repaired, Side: Responder, Title: "the receiver was not ready: no receive was posted",
		Means: "The responder answered with an RNR NAK, and the requester waited for the time in it and sent again.",
		Try:   "Post more receives, earlier: before the peer can send. min_rnr_timer says how long each wait is.",
	},
	rnrUnresolved: {
		Name: "rnr-unresolved", Severity: Failed, Side: Responder, Title: "the receiver was not ready, up to the end of the capture",
		Means: "The last packet is an RNR NAK: no receive was posted. The requester waited as each one asks. It fails after rnr_retry of them; " +
			"if the capture ends before that, it may still wait.",
		Requester: Statuses{ib.WCRNRRetryExcErr},
		Try:       "Post receives at the responder before the requester sends; see whether its program still polls its completion queue.",
	},
	rnrUnheard: {
		Name: "rnr-unheard", Severity: Failed, Side: Network, Title: "RNR NAKs did not reach the requester in time, and its retries were used up",
		Means: "The responder answered each request with an RNR NAK. The requester may send again after RNR NAKs without end (rnr_retry 7), " +
			"but it repeated at other times than they ask for: its retry timer ended. After retry_cnt repeats it fails.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "Look for drops and delays between the responder and the requester, and for a timeout that is shorter than the round trip. Then post receives earlier.",
	},
	rnrOrSilence: {
		Name: "rnr-or-silence", Severity: Failed, Side: Both, Title: "the receiver was not ready, and the requester did not get every RNR NAK",
		Means: "The last packet is an RNR NAK, and some repeats came at other times than RNR NAKs ask for. Either the requester got rnr_retry of them, " +
			"or they were lost or late and its retries were used up. With rnr_retry 7 its retries were used up. The capture does not show rnr_retry, or does not show which it was.",
		Requester: Statuses{ib.WCRNRRetryExcErr, ib.WCRetryExcErr},
		Try:       "Post receives at the responder before the requester sends. Look for drops and delays between the responder and the requester.",
	},
	rnrWaits: {
		Name: "rnr-waits", Severity: Unknown, Side: Responder, Title: "the receiver was not ready, and the requester waits for it without end",
		Means: "The last packet is an RNR NAK. The requester waited as each one asks, and never fails because of them (rnr_retry 7: the connection managers agreed on it, or " +
			"more than 6 in a row show it). The capture ends there, or a program ended the connection.",
		Try: "Post receives at the responder; see whether its program still polls its completion queue.",
	},
	keyInvalidated: {
		Name: "key-invalidated", Severity: Failed, Side: Requester, Title: "a request was refused: an earlier SEND with invalidate had invalidated its R_Key",
		Means:     "The responder executed a SEND with invalidate that named this R_Key, and answered a later request that uses the key with a remote access error.",
		Requester: Statuses{ib.WCRemAccessErr},
		Try:       "Do not use a key after a SEND that invalidates it: the responder has to bind a memory window, or register memory, again and send the new key.",
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
	accessRefused: {
		Name: "access-refused", Severity: Failed, Side: Both, Title: "a request was refused: remote access error",
		Means:     "The R_Key is wrong or not of this protection domain, the range lies outside the region, or the region lacks the right. Whether it was a WRITE, a READ or an atomic is not in this capture.",
		Requester: Statuses{ib.WCRemAccessErr},
		Try:       "Capture both directions. Compare R_Key, address and length in the request with the region that the responder registered, and its access flags.",
	},
	invalidRequest: {
		Name: "invalid-request", Severity: Failed, Side: Both, Title: "a request was refused: remote invalid request",
		Means:     "The responder's queue pair does not allow the operation, its length or place in the message is wrong, or an atomic is not aligned to 8 bytes.",
		Requester: Statuses{ib.WCRemInvReqErr}, Try: "Check qp_access_flags and max_dest_rd_atomic of the responder, the path MTU of both sides, the size of the receive, the alignment of atomics.",
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
		Means: "The responder answered by a NAK that ends the request. The requester repeated after it, an earlier request has no answer here, " +
			"or a rule of faults lost, changed or delayed the NAK. A requester that did not get both in time used up its retries. The detail names the refusal.",
		Requester: Statuses{ib.WCRetryExcErr},
		Try:       "See what the responder refused, and the requester's completion.",
	},
	unknownNAK: {
		Name: "unknown-nak", Severity: Failed, Side: Responder, Title: "a NAK has a reserved code",
		Means: "The syndrome is reserved. Adapters ignore the NAK or fail the request.",
		Try:   "Look for an adapter that is not up to date at the responder.",
	},
	nakRefuted: {
		Name: "nak-refuted", Severity: Repaired, Side: Responder, Title: "a NAK refused a request that the responder acknowledged later",
		Means: "A responder that refuses a request goes to ERR and acknowledges nothing more. This one acknowledged the request, or a later one, after the NAK. " +
			"So the NAK is forged, by a stranger that sends packets from the responder's address, or the responder is broken. The detail names the refusal. " +
			"No completion with error follows from the NAK: a requester that examines a NAK before it believes it, as softhca does, goes on.",
		Try: "See where the NAK comes from: compare its Ethernet source address, its TTL and its IPv4 identification with those of the responder's other packets.",
	},
	nakDoubtful: {
		Name: "nak-perhaps-refuted", Severity: Unknown, Side: Both, Title: "a NAK refused a request, which came again and was acknowledged",
		Means: "The responder acknowledged nothing before the NAK. Afterwards the requests came again, and the responder acknowledged the refused one. " +
			"Either the NAK is forged, or the responder is broken: then no completion with error follows from it. " +
			"Or the request failed, and the connection was set up again with the same queue pairs and PSNs. The detail names the refusal.",
		Try: "See the requester's completions. If there is no error, see where the NAK comes from, as for nak-refuted.",
	},
	invalidateFailed: {
		Name: "invalidate-failed", Severity: Failed, Side: Both, Title: "SEND with invalidate was acknowledged but not counted as executed",
		Means:     "The MSN did not advance: the R_Key to invalidate was wrong. The requester sees success, the receiver an error.",
		Responder: Statuses{ib.WCRemInvReqErr},
		Try:       "Check which R_Key the request invalidates: it must be a bound memory window of type 2 of that queue pair.",
	},
	resync: {
		Name: "rd-resync", Severity: Repaired, Side: Requester, Title: "a reliable datagram was abandoned or put off, and the channel resynchronised",
		Means: "The requester sent a RESYNC to give up the message in flight: the message failed, or the requester sends it again when the receiver is ready.",
		Try:   "See the completion of the message before it: it failed, the receiver had posted no receive for it, or its queue pair was reset.",
	},
	migrated: {
		Name: "migrated", Severity: Repaired, Side: Network, Title: "a connection moved to its alternate path",
		Means: "Requests of the same queue pair go on between other addresses. The old path failed, or a program asked for it.",
		Try:   "Look at the old path. Load a new alternate path, or the next failure ends the connection.",
	},
	lengthWrong: {
		Name: "length-wrong", Severity: Failed, Side: Requester, Title: "a packet is longer or shorter than its place in the message allows",
		Means:     "FIRST and MIDDLE packets of one connection must have the path MTU's length. A device on the way cut the packet, or the sender is wrong.",
		Requester: Statuses{ib.WCRemInvReqErr}, Try: "Check the path MTU of both queue pairs and the sender's adapter.",
	},
	ucGap: {
		Name: "uc-gap", Severity: Lost, Side: Network, Title: "packets of an unreliable connection are missing here",
		Means: "PSNs are missing. UC repeats no packet: the messages that they belong to are lost, or the capture missed the packets.",
		Try:   "Look for drops between the sender and this place, unless the capture itself dropped packets.",
	},
	ucCut: {
		Name: "uc-message-cut", Severity: Lost, Side: Network, Title: "a message of an unreliable connection has no beginning or no end",
		Means: "The receiver drops such a message, and no program gets an error.",
		Try:   "The missing packet was lost between the sender and this place, or the sender was stopped.",
	},
	ucLength: {
		Name: "uc-length-wrong", Severity: Lost, Side: Requester, Title: "a message of an unreliable connection has a wrong length",
		Means: "FIRST and MIDDLE packets must have the path MTU's length, and the packets of a WRITE as many bytes as the first one announces. The receiver drops the message.",
		Try:   "Check the path MTU of both queue pairs, the sender's adapter, and devices on the way that cut packets.",
	},
	udQKeyWrong: {
		Name: "ud-qkey-wrong", Severity: Lost, Side: Requester, Title: "datagrams have another Q_Key than their receiver announced",
		Means: "The SIDR_REP named the Q_Key of the queue pair. The receiver drops datagrams that have another, and no program gets an error.",
		Try:   "Set remote_qkey of the work requests to the Q_Key of the SIDR_REP (rdma_cm: param.ud.qkey of the ESTABLISHED event).",
	},
	udTooLong: {
		Name: "ud-too-long", Severity: Lost, Side: Requester, Title: "a datagram is longer than the largest path MTU",
		Means: "A datagram has to fit into one packet of at most 4096 bytes. The receiver drops it.",
		Try:   "Send at most the active MTU of the port; check the sender's adapter.",
	},
	udQKeys: {
		Name: "ud-qkeys-differ", Severity: Lost, Side: Requester, Title: "datagrams from one queue pair to another have different Q_Keys",
		Means: "A queue pair has one Q_Key: it drops datagrams that have another, and no program gets an error.",
		Try:   "Check remote_qkey of the work requests.",
	},
	pkeysDiffer: {
		Name: "pkeys-differ", Severity: Lost, Side: Both, Title: "the two directions of a connection have different P_Keys",
		Means: "An adapter drops packets of another partition, and no program gets an error.",
		Try:   "Check pkey_index of both queue pairs, and the P_Key table of both ports.",
	},
	congestionMark: {
		Name: "congestion-mark", Severity: Repaired, Side: Network, Title: "packets were marked: they met congestion",
		Means: "A switch or router set the ECN field to CE.",
		Try:   "Look at the queues on the way, and whether the sender reacts to congestion notifications.",
	},
	congestionNotice: {
		Name: "congestion-notice", Severity: Repaired, Side: Network, Title: "congestion notifications were sent",
		Means: "The receiver of marked packets asked their sender to slow down (CNP).",
		Try:   "Look at the queues on the way: the sender is slower than the line.",
	},
	icrcID: {
		Name: "icrc-id-rewritten", Severity: Failed, Side: Network, Title: "the IPv4 identification was rewritten on the way",
		Means: "With another identification the ICRC is right. A router, a NAT or a segmentation offload changed a field that the ICRC covers; every receiver drops such packets.",
		Try:   "Let nothing on the way touch IP headers of UDP port 4791; at the sender, see whether a tunnel or a firewall rewrites the identification.",
	},
	icrcFragmentFlag: {
		Name: "icrc-df-cleared", Severity: Failed, Side: Network, Title: "the don't-fragment flag was changed on the way",
		Means: "With the flag as it is usually sent the ICRC is right. A tunnel or firewall that clears it makes every receiver drop the packet.",
		Try:   "Switch off the clearing of the don't-fragment flag (as \"scrub no-df\") for UDP port 4791.",
	},
	icrcPort: {
		Name: "icrc-port-translated", Severity: Failed, Side: Network, Title: "the UDP source port was translated on the way",
		Means: "With another source port the ICRC is right. A NAT changed it, and the ICRC covers it.",
		Try:   "RoCEv2 does not pass a NAT. Route between the hosts, or tunnel.",
	},
	icrcAddress: {
		Name: "icrc-address-translated", Severity: Failed, Side: Network, Title: "an IP address was translated on the way",
		Means: "With another address that this capture shows the ICRC is right. A NAT changed it, and the ICRC covers it.",
		Try:   "RoCEv2 does not pass a NAT. Route between the hosts, or tunnel.",
	},
	icrcDamaged: {
		Name: "icrc-damaged", Severity: Repaired, Side: Network, Title: "packets were damaged on the way",
		Means: "The ICRC is wrong and no known rewriting explains it. The receiver drops the packet; a reliable connection repeats it.",
		Try:   "Look for a bad cable, port or memory on the way; the Ethernet FCS does not protect packets inside devices.",
	},
	icrcLost: {
		Name: "icrc-lost-message", Severity: Lost, Side: Network, Title: "packets of messages that are not sent again were damaged on the way",
		Means: "The ICRC is wrong and no known rewriting explains it. The receiver drops the packet, and with it the message: UC and UD repeat nothing.",
		Try:   "Look for a bad cable, port or memory on the way; the Ethernet FCS does not protect packets inside devices.",
	},
	icrcSender: {
		Name: "icrc-sender", Severity: Failed, Side: Requester, Title: "every packet of a sender has a wrong ICRC",
		Means: "No ICRC of the sender is right. The sender computes it wrongly, its adapter fills it in after the place of capture, or everything is rewritten on the way.",
		Try:   "Capture at the receiver: if it is wrong there too, look at the sender's driver and at what rewrites headers on the way.",
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
		Means: "A packet was cut on its way. Adapters drop it.",
		Try:   "Look for a device that cuts packets, or an MTU that is smaller than the path MTU needs.",
	},
	badPad: {
		Name: "malformed-pad", Severity: Unknown, Side: Network, Title: "packets with more padding than payload",
		Means: "The pad count is wrong: the packet was damaged on the way. Adapters drop it.",
		Try:   "Find the sender.",
	},
	answerSpoilt: {
		Name: "answer-spoilt", Severity: Unknown, Side: Both, Title: "a rule of faults lost or changed an answer, and the requester did not repeat",
		Means: "The answer is in the capture and did not reach the requester. Nothing was sent again: the requester was not allowed a retry (retry_cnt 0), " +
			"its program or its queue pair ended, or the capture did.",
		Try: "See the requester's completions.",
	},
	unfinished: {
		Name: "unanswered", Severity: Unknown, Side: Both, Title: "requests had no answer when the capture ended",
		Means: "Nothing in the capture tells whether they were answered later, or what their program got. The capture ended too early, or the requester sent no more: " +
			"its program or its queue pair ended.",
		Try: "See the requester's completions, or capture for longer.",
	},
	oneDirection: {
		Name: "one-direction", Severity: Unknown, Side: Both, Title: "only one direction of a connection is in the capture",
		Means: "Either the answers or the requests are missing: the capture does not have them, or nothing answered. So nothing tells what became of the requests.",
		Try:   "Capture both directions: at one of both hosts, without a filter for one address.",
	},
	nothingAnswers: {
		Name: "no-acknowledgements", Severity: Unknown, Side: Responder, Title: "nothing in the capture tells whether messages of UC or UD arrived",
		Means: "No packet acknowledges them, and no sender gets an error. A receiver drops a message without an answer if no receive is posted or the receive is too short, " +
			"if the Q_Key or P_Key is wrong, if a WRITE has a wrong R_Key, address or length, and if its queue pair is not in RTR or RTS.",
		Try: "See the completions and the counters of drops at the receiver.",
	},
	noPackets: {
		Name: "no-packets", Severity: Unknown, Side: Both, Title: "no RoCEv2 packet (UDP port 4791) is in this capture",
		Means: "Another interface was captured, a filter left the packets out, nothing was sent while it ran, or they are not RoCEv2: RoCEv1 and InfiniBand have no UDP port. " +
			"RDMA hardware sends packets that the interfaces of the host do not show.",
		Try: "Capture on the interface of the adapter (loopback: lo) with the filter \"udp port 4791\"; for hardware use its vendor's tool. Programs on softhca capture by --capture or --explain.",
	},
	faultAsked: {
		Name: "fault-asked-for", Severity: Repaired, Side: Both, Title: "a rule of faults (--fault) caused this",
		Means: "Comments in the capture name the rule that lost, delayed or changed packets.",
		Try:   "Run without --fault.",
	},
	faultDelayed: {
		Name: "fault-delayed", Severity: Unknown, Side: Both, Title: "a rule of faults (--fault) delayed the last packets",
		Means: "Comments in the capture name the rule. The capture does not show when the delayed packets went on, nor whether the requester was still waiting. " +
			"If it was not, it got RETRY_EXC_ERR. Too few requests follow to show that it was.",
		Try: "See the requester's completions, or run without --fault.",
	},
	faultLost: {
		Name: "fault-lost-message", Severity: Lost, Side: Both, Title: "a rule of faults (--fault) lost a message that is not sent again",
		Means: "Comments in the capture name the rule. UC and UD repeat nothing.",
		Try:   "Run without --fault.",
	},
	cmNobodyListens: {
		Name: "cm-nobody-listens", Severity: Failed, Side: Responder, Title: "nobody listens on that port: REJ, invalid service ID",
		Means: "The connection request arrived, and no program of the responder listens on its service ID. rdma_cm reports REJECTED with status 8.",
		Try:   "Start the server, or correct the port and the port space.",
	},
	cmRefused: {
		Name: "cm-refused", Severity: Failed, Side: Responder, Title: "the program refused the connection: REJ, consumer reject",
		Means: "A program called rdma_reject, or ended with the request unanswered. rdma_cm reports REJECTED with status 28.",
		Try:   "See the log of the program that refused; the private data of the REJ may say why.",
	},
	cmGaveUp: {
		Name: "cm-gave-up", Severity: Failed, Side: Both, Title: "a side gave the connection up: REJ, timeout",
		Means: "The sender of the REJ waited too long for the next message, or its program ended.",
		Try:   "See which message stayed unanswered before it.",
	},
	cmStale: {
		Name: "cm-stale", Severity: Failed, Side: Both, Title: "the peer still has an old connection of that queue pair: REJ, stale connection",
		Means: "The QP number or communication ID is still in use by a connection that one side has forgotten. The next attempt usually works.",
		Try:   "Try again; see why the last connection ended without DREQ.",
	},
	cmBadPath: {
		Name: "cm-bad-path", Severity: Failed, Side: Both, Title: "the peer cannot use the path: REJ about an address or a path attribute",
		Means: "GID, LID, service level, traffic class, hop limit, packet rate, flow label or redirection: the REJ names it.",
		Try:   "Check the addresses of both sides: the GID must be of the port that the request arrived at.",
	},
	cmNoResources: {
		Name: "cm-no-resources", Severity: Failed, Side: Responder, Title: "the peer had no resources for the connection",
		Means: "The peer has no queue pair or EE context left, or allows fewer READs and atomics at once than the request asks for.",
		Try:   "Ask for fewer responder_resources, or look at the limits of the peer.",
	},
	cmUnsupported: {
		Name: "cm-unsupported", Severity: Failed, Side: Both, Title: "the peer does not support what the request asks for",
		Means: "The transport service, the path MTU, the RNR retry count, a version or an option: the REJ names it.",
		Try:   "Compare both programs' parameters; the transport service must be the same.",
	},
	cmOtherReject: {
		Name: "cm-rejected", Severity: Failed, Side: Both, Title: "the connection was rejected",
		Means: "The REJ names the reason, for example IDs of a connection that the peer does not know.",
		Try:   "See the reason in the detail of the finding.",
	},
	cmREQRepeated: {
		Name: "cm-req-repeated", Severity: Repaired, Side: Network, Title: "a connection request was repeated",
		Means: "No answer came in time: the REQ or its answer was lost, or the peer is slow.",
		Try:   "Look for drops; let a server that takes long to accept send an MRA.",
	},
	cmREQUnanswered: {
		Name: "cm-req-unanswered", Severity: Failed, Side: Responder, Title: "a connection request was repeated and never answered",
		Means: "No host or adapter has that address, or a firewall drops UDP port 4791. rdma_cm reports UNREACHABLE with -ETIMEDOUT.",
		Try:   "Check address and route, that the peer has an RDMA device on that interface, and that UDP port 4791 is open.",
	},
	cmREPRepeated: {
		Name: "cm-rep-repeated", Severity: Repaired, Side: Network, Title: "a REP was repeated: the RTU, or the REP, was lost",
		Means: "The passive side accepted, and waited in vain for the RTU or the first data packet.",
		Try:   "Look for drops between the two.",
	},
	cmDREQRepeated: {
		Name: "cm-dreq-repeated", Severity: Repaired, Side: Network, Title: "a disconnect request was repeated",
		Means: "The DREQ or its DREP was lost.",
		Try:   "Look for drops between the two.",
	},
	cmDREQUnanswered: {
		Name: "cm-dreq-unanswered", Severity: Repaired, Side: Responder, Title: "a disconnect request was repeated and never answered",
		Means: "The peer's program or host had ended before. The side that sends the DREQ waits until its retries are used up; then the connection is closed.",
		Try:   "See whether the peer still runs.",
	},
	cmSlow: {
		Name: "cm-slow", Severity: Repaired, Side: Responder, Title: "a program takes long to answer a connection request (MRA)",
		Means: "Its host asked the other side to wait longer (MRA).",
		Try:   "See what the program does between the request and rdma_accept.",
	},
	cmLAPRepeated: {
		Name: "cm-lap-repeated", Severity: Repaired, Side: Network, Title: "an alternate path was offered again (LAP)",
		Means: "The LAP or its APR was lost.",
		Try:   "Look for drops between the two.",
	},
	cmLAPUnanswered: {
		Name: "cm-lap-unanswered", Severity: Repaired, Side: Responder, Title: "an alternate path was offered again and never answered (LAP)",
		Means: "The peer's connection manager or its program does not answer. The connection goes on without an alternate path.",
		Try:   "See whether the peer takes alternate paths at all: programs over Linux's rdma_cm have no call for it.",
	},
	cmAlternateRefused: {
		Name: "cm-alternate-refused", Severity: Failed, Side: Responder, Title: "an alternate path was refused (APR)",
		Means: "The APR has the reason. The connection goes on without an alternate path.",
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
		Try:   "Look for drops between the two.",
	},
	sidrUnanswered: {
		Name: "sidr-unanswered", Severity: Failed, Side: Responder, Title: "the look-up of a UD service was repeated and never answered",
		Means: "No host or adapter has that address, or a firewall drops UDP port 4791.",
		Try:   "Check address and route, and that UDP port 4791 is open.",
	},
}
