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
	retriesUsedUp
	psnAhead
	psnBehind
	rnrWait
	rnrUnresolved
	writeRefused
	readRefused
	atomicRefused
	accessRefused
	invalidRequest
	operationalError
	invalidRDRequest
	unknownNAK
	invalidateFailed
	resync
	migrated
	lengthWrong
	ucGap
	ucCut
	udQKeys
	pkeysDiffer
	congestionMark
	congestionNotice
	icrcID
	icrcFragmentFlag
	icrcPort
	icrcAddress
	icrcDamaged
	icrcSender
	badOpcode
	badVersion
	badLength
	badPad
	faultAsked
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
		Means: "A PSN was skipped here, and came only when the responder or silence asked for it.",
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
		Try:   "Capture at the other end too: where the request is missing, it was lost on its way; where its answer stands, that was.",
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
		Requester: ib.WCRetryExcErr, Responder: ib.WCSuccess,
		Try: "Check that the responder's queue pair is in RTR or RTS, that both sides exchanged the right QP numbers and GIDs, and that no firewall drops UDP port 4791.",
	},
	wentSilent: {
		Name: "went-silent", Severity: Failed, Side: Responder, Title: "the responder answered at first and then no more",
		Means:     "After answers the requests were repeated without any. The program ended, its queue pair went to ERR, or the way was cut.",
		Requester: ib.WCRetryExcErr,
		Try:       "See whether the responder's program still runs, and what its last completion was; then see whether the host can be reached.",
	},
	answersIgnored: {
		Name: "answers-ignored", Severity: Failed, Side: Requester, Title: "answers pass here, and the requester repeats its requests all the same",
		Means:     "The answers get lost between here and the requester, or it drops them: a wrong destination QP, address or P_Key.",
		Requester: ib.WCRetryExcErr,
		Try:       "Check that the responder's dest_qp_num and address vector are those of the requester, and the requester's counters of drops.",
	},
	retriesUsedUp: {
		Name: "retries-used-up", Severity: Failed, Side: Network, Title: "losses went on until the retries were used up",
		Means: "The responder lives and asks for what is missing, and the requester repeated it several times; then it sent no more. " +
			"Each repeat lost packets again.",
		Requester: ib.WCRetryExcErr,
		Try:       "Find where packets are lost: the other findings say on which side of this place. A greater retry_cnt only hides it.",
	},
	psnAhead: {
		Name: "psn-ahead", Severity: Failed, Side: Both, Title: "the two sides disagree on the first PSN: the requester is ahead",
		Means: "The responder, which has executed nothing yet (MSN 0), asks for a PSN that the requester never sent. " +
			"The requester's sq_psn and the responder's rq_psn differ.",
		Requester: ib.WCRetryExcErr,
		Try:       "Exchange PSNs anew: rq_psn of one side is sq_psn of the other.",
	},
	psnBehind: {
		Name: "psn-behind", Severity: Failed, Side: Both, Title: "the two sides disagree on the first PSN: the requester is behind",
		Means: "The responder takes the first requests for old ones and acknowledges something else (MSN 0: it has executed nothing). " +
			"The requester's sq_psn and the responder's rq_psn differ.",
		Requester: ib.WCRetryExcErr,
		Try:       "Exchange PSNs anew: rq_psn of one side is sq_psn of the other.",
	},
	rnrWait: {
		Name: "rnr-wait", Severity: Repaired, Side: Responder, Title: "the receiver was not ready: no receive was posted",
		Means: "The responder answered with an RNR NAK, and the requester waited for the time in it and sent again.",
		Try:   "Post more receives, earlier: before the peer can send. min_rnr_timer says how long each wait is.",
	},
	rnrUnresolved: {
		Name: "rnr-unresolved", Severity: Failed, Side: Responder, Title: "the receiver was not ready, up to the end of what was captured",
		Means:     "The last that was heard is an RNR NAK: no receive was posted. After rnr_retry such answers (7: never) the requester fails.",
		Requester: ib.WCRNRRetryExcErr,
		Try:       "Post receives at the responder before the requester sends; see whether its program still polls its completion queue.",
	},
	writeRefused: {
		Name: "write-refused", Severity: Failed, Side: Both, Title: "a WRITE was refused: remote access error",
		Means:     "The R_Key is wrong or not of this protection domain, the range lies outside the region, or the region lacks REMOTE_WRITE.",
		Requester: ib.WCRemAccessErr, Try: "Compare R_Key, address and length in the request with the region that the responder registered, and its access flags.",
	},
	readRefused: {
		Name: "read-refused", Severity: Failed, Side: Both, Title: "a READ was refused: remote access error",
		Means:     "The R_Key is wrong or not of this protection domain, the range lies outside the region, or the region lacks REMOTE_READ.",
		Requester: ib.WCRemAccessErr, Try: "Compare R_Key, address and length in the request with the region that the responder registered, and its access flags.",
	},
	atomicRefused: {
		Name: "atomic-refused", Severity: Failed, Side: Both, Title: "an atomic was refused: remote access error",
		Means:     "The R_Key is wrong, the address lies outside the region, or the region lacks REMOTE_ATOMIC.",
		Requester: ib.WCRemAccessErr, Try: "Compare R_Key and address with the region that the responder registered, and its access flags.",
	},
	accessRefused: {
		Name: "access-refused", Severity: Failed, Side: Both, Title: "a request was refused: remote access error",
		Means:     "The R_Key is wrong or not of this protection domain, the range lies outside the region, or the region lacks the right. Whether it was a WRITE, a READ or an atomic is not in this capture.",
		Requester: ib.WCRemAccessErr,
		Try:       "Capture both directions. Compare R_Key, address and length in the request with the region that the responder registered, and its access flags.",
	},
	invalidRequest: {
		Name: "invalid-request", Severity: Failed, Side: Both, Title: "a request was refused: remote invalid request",
		Means:     "The responder's queue pair does not allow the operation, its length or place in the message is wrong, or an atomic is not aligned to 8 bytes.",
		Requester: ib.WCRemInvReqErr, Try: "Check qp_access_flags and max_dest_rd_atomic of the responder, the path MTU of both sides, the size of the receive, the alignment of atomics.",
	},
	operationalError: {
		Name: "operational-error", Severity: Failed, Side: Responder, Title: "the responder could not complete a request: remote operational error",
		Means:     "Something is wrong with the responder's own receive: its L_Key, or it is smaller than the message (Linux Soft-RoCE reports that so).",
		Requester: ib.WCRemOpErr, Responder: ib.WCLocQPOpErr,
		Try: "See the responder's receive completion; check the size and the L_Key of its receives.",
	},
	invalidRDRequest: {
		Name: "invalid-rd-request", Severity: Failed, Side: Both, Title: "a reliable datagram was refused: invalid RD request",
		Means:     "The queue pair that it names does not exist, is in another RD domain, or has another Q_Key.",
		Requester: ib.WCRemInvRDReqErr, Try: "Compare the QP number and Q_Key in the request with the responder's.",
	},
	unknownNAK: {
		Name: "unknown-nak", Severity: Failed, Side: Responder, Title: "an answer has a code that is not defined",
		Means: "The syndrome is reserved. Adapters ignore it or fail the request.",
		Try:   "Look for an adapter that is not up to date at the responder.",
	},
	invalidateFailed: {
		Name: "invalidate-failed", Severity: Failed, Side: Both, Title: "SEND with invalidate was acknowledged but not counted as executed",
		Means:     "The MSN did not advance: the R_Key to invalidate was wrong. The requester sees success, the receiver an error.",
		Responder: ib.WCRemInvReqErr,
		Try:       "Check which R_Key the request invalidates: it must be a bound memory window of type 2 of that queue pair.",
	},
	resync: {
		Name: "rd-resync", Severity: Repaired, Side: Requester, Title: "a reliable datagram was abandoned or put off, and the channel resynchronised",
		Means: "The requester told the responder by a RESYNC that it does not go on with the message in flight: it failed, or it comes again when the receiver is ready.",
		Try:   "See the completion of the message before it: it failed, was not received for want of a receive, or its queue pair was reset.",
	},
	migrated: {
		Name: "migrated", Severity: Repaired, Side: Network, Title: "a connection moved to its alternate path",
		Means: "Requests of the same queue pair go on between other addresses. The old path failed, or a program asked for it.",
		Try:   "Look at the old path. Load a new alternate path, or the next failure ends the connection.",
	},
	lengthWrong: {
		Name: "length-wrong", Severity: Failed, Side: Requester, Title: "a packet is longer or shorter than its place in the message allows",
		Means:     "FIRST and MIDDLE packets of one connection must have the path MTU's length. A device on the way cut the packet, or the sender is wrong.",
		Requester: ib.WCRemInvReqErr, Try: "Check the path MTU of both queue pairs and the sender's adapter.",
	},
	ucGap: {
		Name: "uc-gap", Severity: Lost, Side: Network, Title: "packets of an unreliable connection are missing here",
		Means: "The PSN skips. Nobody repeats them: the messages that they belong to are gone, or the capture missed them.",
		Try:   "Look for drops between the sender and this place, unless the capture itself dropped packets.",
	},
	ucCut: {
		Name: "uc-message-cut", Severity: Lost, Side: Network, Title: "a message of an unreliable connection has no beginning or no end",
		Means: "The receiver drops such a message without a word.",
		Try:   "The missing packet was lost between the sender and this place, or the sender was stopped.",
	},
	udQKeys: {
		Name: "ud-qkeys-differ", Severity: Lost, Side: Requester, Title: "datagrams from one queue pair to another have different Q_Keys",
		Means: "A queue pair has one Q_Key: those datagrams that have another are dropped without a word.",
		Try:   "Check remote_qkey of the work requests.",
	},
	pkeysDiffer: {
		Name: "pkeys-differ", Severity: Lost, Side: Both, Title: "the two directions of a connection have different P_Keys",
		Means: "Packets of another partition are dropped without a word.",
		Try:   "Check pkey_index of both queue pairs, and the tables that it points into.",
	},
	congestionMark: {
		Name: "congestion-mark", Severity: Repaired, Side: Network, Title: "packets were marked: they met congestion",
		Means: "A switch or router set the ECN field to CE.",
		Try:   "Look at the queues on the way, and whether the sender answers to congestion notifications.",
	},
	congestionNotice: {
		Name: "congestion-notice", Severity: Repaired, Side: Network, Title: "congestion notifications were sent",
		Means: "The receiver of marked packets told their sender (CNP) to be slower.",
		Try:   "Look at the queues on the way; the throughput is less than the line's.",
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
		Try:   "Look for a bad cable, port or memory on the way; the Ethernet FCS does not protect inside of devices.",
	},
	icrcSender: {
		Name: "icrc-sender", Severity: Failed, Side: Requester, Title: "every packet of a sender has a wrong ICRC",
		Means: "Not one was right. The sender computes it otherwise, its adapter fills it in after the place of capture, or everything is rewritten on the way.",
		Try:   "Capture at the receiver: if it is wrong there too, look at the sender's driver and at what rewrites headers on the way.",
	},
	badOpcode: {
		Name: "malformed-opcode", Severity: Repaired, Side: Network, Title: "packets with an opcode that is not assigned",
		Means: "It was damaged on the way, or another protocol uses UDP port 4791.",
		Try:   "See who sends it.",
	},
	badVersion: {
		Name: "malformed-version", Severity: Repaired, Side: Network, Title: "packets of another transport version",
		Means: "Only version 0 exists. It was damaged on the way, or another protocol uses UDP port 4791.",
		Try:   "See who sends it.",
	},
	badLength: {
		Name: "malformed-length", Severity: Repaired, Side: Network, Title: "packets too short for their headers, or not a multiple of 4 bytes long",
		Means: "A packet was cut on its way.",
		Try:   "Look for what cuts packets: an MTU that is smaller than the path MTU needs.",
	},
	badPad: {
		Name: "malformed-pad", Severity: Repaired, Side: Network, Title: "packets with more padding than payload",
		Means: "The pad count is wrong: the packet was damaged on the way.",
		Try:   "See who sends it.",
	},
	faultAsked: {
		Name: "fault-asked-for", Severity: Repaired, Side: Both, Title: "a rule of faults, which somebody asked for, did this",
		Means: "Comments in the capture name the rule that lost, delayed or changed packets.",
		Try:   "Run without --fault.",
	},
	faultLost: {
		Name: "fault-lost-message", Severity: Lost, Side: Both, Title: "a rule of faults, which somebody asked for, lost a message that nobody repeats",
		Means: "Comments in the capture name the rule. On UC and UD nothing is sent again.",
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
		Try:   "Ask the program that refused; its private data may say why.",
	},
	cmGaveUp: {
		Name: "cm-gave-up", Severity: Failed, Side: Both, Title: "a side gave the connection up: REJ, timeout",
		Means: "Its sender waited too long for the next message, or its program went away.",
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
		Means: "No queue pair, EE context, or too few READs and atomics at once.",
		Try:   "Ask for fewer responder_resources, or look at the limits of the peer.",
	},
	cmUnsupported: {
		Name: "cm-unsupported", Severity: Failed, Side: Both, Title: "the peer does not support what the request asks for",
		Means: "The transport service, the path MTU, the RNR retry count, a version or an option: the REJ names it.",
		Try:   "Compare both programs' parameters; the transport service must be the same.",
	},
	cmOtherReject: {
		Name: "cm-rejected", Severity: Failed, Side: Both, Title: "the connection was rejected",
		Means: "The REJ has its reason; IDs of an unknown connection are among them.",
		Try:   "See the reason in the details.",
	},
	cmREQRepeated: {
		Name: "cm-req-repeated", Severity: Repaired, Side: Network, Title: "a connection request was repeated",
		Means: "No answer came in time: the REQ or its answer was lost, or the peer is slow.",
		Try:   "Look for drops; a server that takes long to accept should be told to send MRA.",
	},
	cmREQUnanswered: {
		Name: "cm-req-unanswered", Severity: Failed, Side: Responder, Title: "a connection request was repeated and never answered",
		Means: "No host, no adapter or a firewall is at that address. rdma_cm reports UNREACHABLE with -ETIMEDOUT.",
		Try:   "Check address and route, that the peer has an RDMA device on that interface, and that UDP port 4791 is open.",
	},
	cmREPRepeated: {
		Name: "cm-rep-repeated", Severity: Repaired, Side: Network, Title: "a REP was repeated: the RTU, or the REP, was lost",
		Means: "The passive side accepted, and waited in vain for the confirmation. The first data packet would do, too.",
		Try:   "Look for drops between the two.",
	},
	cmDREQRepeated: {
		Name: "cm-dreq-repeated", Severity: Repaired, Side: Network, Title: "a disconnect request was repeated",
		Means: "The DREQ or its DREP was lost.",
		Try:   "Look for drops between the two.",
	},
	cmDREQUnanswered: {
		Name: "cm-dreq-unanswered", Severity: Repaired, Side: Responder, Title: "a disconnect request was repeated and never answered",
		Means: "The peer's program or host was gone before. The side that asked waits until its retries end; then the connection is closed.",
		Try:   "See whether the peer still runs.",
	},
	cmSlow: {
		Name: "cm-slow", Severity: Repaired, Side: Responder, Title: "a program takes long to answer a connection request (MRA)",
		Means: "Its host asked the other side for patience by an MRA.",
		Try:   "See what the program does between the request and rdma_accept.",
	},
	cmLAPRepeated: {
		Name: "cm-lap-repeated", Severity: Repaired, Side: Network, Title: "an alternate path was offered again (LAP)",
		Means: "The LAP or its APR was lost.",
		Try:   "Look for drops between the two.",
	},
	cmLAPUnanswered: {
		Name: "cm-lap-unanswered", Severity: Repaired, Side: Responder, Title: "an alternate path was offered again and never answered (LAP)",
		Means: "The peer's connection manager does not answer, or its program has not said yes or no. The connection goes on without an alternate path.",
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
		Means: "No host, no adapter or a firewall is at that address.",
		Try:   "Check address and route, and that UDP port 4791 is open.",
	},
}
