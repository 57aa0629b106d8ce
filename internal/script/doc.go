// Package script runs protocol scripts: files *.qp that build one adapter, play
// its peer packet by packet in virtual time, and record what the adapter does
// at every step. A step's output is everything that happened: packets,
// completions, events, state changes of queue pairs and connections, changed
// memory, changed counters. So a script need not list what must not happen.
//
// Reading order: script.go (a script and its steps), header.go, world.go (the adapter
// and the commands), objects.go, rd.go, attrs.go, post.go, inject.go, time.go (the
// commands by subject), log.go and show.go (the output), args.go and data.go (words,
// numbers and bytes). Connections: conn.go, calls.go, resolve.go and alternate.go
// (the commands), fields.go and messages.go (the messages by their fields), usual.go
// (the peer's default messages), mads.go (management datagrams in and out),
// cmcount.go. To play scripts to other adapters: play.go, record.go, injection.go,
// corpus.go (the scripts, built in).
//
// # A script
//
//	# title: A sequence NAK takes the requester back to the missing PSN
//	# covers: E8
//
//	# The memory says which packet its bytes belong to.
//	mr m len=4096
//	fill m a*256,b*44
//	qp a RC
//	walk a RTS
//	    a: RESET -> INIT -> RTR -> RTS (modify)
//
//	post a SEND id=1 m:300
//	    > a RC_SEND_FIRST psn=200 len=256 data=a*256
//	    > a RC_SEND_LAST psn=201 ackreq len=44 data=b*44
//	< a NAK_SEQUENCE psn=201
//	    retry a from psn=201 (sequence NAK)
//	    > a RC_SEND_LAST psn=201 ackreq len=44 data=b*44
//	    count: rcvd_seq_err +1, completer_retry_err +1, retrans_pkts +1
//
// Lines that begin with # are prose; indented lines are output, which the test
// writes when it is run with -rewrite; every other line is a command. A line
// that begins with & adds a command to the one before: the adapter sends only
// after the last, and they have one output. Comments at the top may be a
// header: title: and covers: (requirements) must be there; status: and event:
// name the completion statuses and events that the script provokes, which must
// then occur, and provoked:, requester: and responder: say in a sentence how it
// provokes them and what each side sees.
//
// Blanks separate words. Numbers are decimal or 0x, and may end in K or M;
// NAME+N, NAME-N and NAME^N compute with the number that a name stands for: a
// region's address or key, a queue pair's number. Bytes are terms separated by
// commas: a*256,"text",0x00ff*4. Flags are bare words; a Boolean KEY=0 or 1.
//
// # Objects
//
// A protection domain pd and a completion queue cq exist. A refusal by the
// adapter is output ("refused: ..."); a command that makes no sense is an
// error of the script.
//
//	adapter [v6] [credits] [inorder] [fatal_events] [challenge] [privileged] [migreq=0] [addr=IP] [addr2=IP] [peer=IP]
//	        [mtu=N] [pkeys=K,K] [window=N] [max_qp=N] [max_qp_wr=N] [max_sge=N] ...
//	        [max_conns=N] [max_half_open=N] [max_listeners=N]                comes first
//	pd NAME
//	mr NAME [len=4096] [access=local_write|remote_write|remote_read|remote_atomic] [iova=N] [fast] [durable] [quiet] [pd=P]
//	                                      fast: can be invalidated; durable: can be written back, for FLUSH;
//	                                      quiet: its changes are not shown
//	mw NAME [type=2] [pd=P]               a memory window
//	mr NAME null [pd=P]                   a region without memory
//	cq NAME [size=1024] [manual] [timed]  manual: only poll takes entries out, so it can fill up;
//	                                      timed: its entries hold the time of their completion
//	srq NAME [wr=16] [sge=4] [limit=0] [pd=P]
//	ah NAME [dgid=IP] [hop_limit=N] [traffic_class=N] [flow_label=N] [pd=P]
//	qp NAME RC|UC|UD|GSI [cq=C] [send_cq=C] [recv_cq=C] [srq=S] [pd=P] [sig_per_wr]
//	        [send_wr=16] [recv_wr=16] [send_sge=4] [recv_sge=4] [inline=64]
//	rdd NAME                              a reliable datagram domain; one called rdd comes by itself
//	eec NAME [rdd=rdd]                    an EE context; qp NAME RD has rdd=rdd too
//	xrcd NAME                             an XRC domain
//	srq NAME xrcd=D [cq=C] [...]          a shared receive queue of XRC: a name for its number, too
//	qp NAME XRC_INI [...] · qp NAME XRC_TGT xrcd=D
//	dereg MR · rereg MR [access=...] [pd=P] [len=N] [iova=N] · destroy NAME · resize CQ|SRQ N · limit SRQ N
//	moderate CQ [count=N] [period=DURATION]   delays its events
//
// # Queue pairs
//
//	walk QP STATE [ATTR=V ...]            by the legal calls, with the required attributes
//	modify QP [STATE] [ATTR[=V] ...]      one call; a bare ATTR has the default
//	                                      QP: or an EE context, whose dest_qpn=0x555501 (and on) is one too
//	query QP [ATTR ...]
//	deadline QP                           when its next timer fires
//
// Attributes have the architecture's names in lower case. Their defaults:
// rq_psn=100 sq_psn=200 path_mtu=256 dest_qpn=0x777701 (and on) qkey=0x11111111
// access_flags=remote_write|remote_read|remote_atomic max_qp_rd_atomic=4
// max_dest_rd_atomic=4 min_rnr_timer=12 (640 µs) timeout=14 (67.1 ms)
// retry_cnt=2 rnr_retry=2 av=10.0.0.2 (then ,hop_limit=N ,sgid_index=N
// ,static_rate=GB/S and so on). An alternate path is alt_path=IP, then the same and
// ,pkey_index=N ,timeout=N; path_mig_state=migrated|rearm|armed,
// which is shown as 0, 1 or 2.
//
// # Work
//
//	post QP OPERATION id=N|N..M [ELEMENT ...] [signaled] [fence] [solicited] [inline=BYTES] [inlined]
//	        [va=0x10000] [rkey=0x777] [plt=1 sel=0 dlen=0] [imm=N] [inv=KEY] [add=N] [compare=N swap=N] [lkey=KEY]
//	        [ah=AH] [dest=QPN] [qkey=N] [eec=EEC] [srqn=0x666601]   eec: the first one
//	                                      OPERATION: SEND, RDMA_WRITE_WITH_IMM, ATOMIC_FETCH_AND_ADD, ...
//	post QP BIND_MW id=N mw=KEY [ELEMENT] [access=remote_write|remote_read|remote_atomic] [tag=N]
//	                                      KEY: MW or MR, +N and so on; tag: the next one
//	recv QP|SRQ id=N|N..M [ELEMENT ...]   ELEMENT: MR[+OFFSET][:LENGTH[:KEY]]
//	poll CQ [N] · arm CQ [solicited]
//	fill MR[+OFFSET] BYTES · dump MR[+OFFSET] [LENGTH]
//	written [failed]                      the memory of the oldest FLUSH that waits has been written back
//
// # Connections
//
//	listen NAME SERVICE [rd] [forget|destroy]  SERVICE: tcp:PORT, udp:PORT, ib:PORT, ipoib:PORT, rd:PORT or a
//	                                      number; rd: it takes RD and nothing else; what is done with every
//	                                      request at once
//	conn NAME [qp=QP] [eec=EEC] [rd] [by_hand]  a connection or resolution to be, its queue pair, and of RD
//	                                      its EE context
//	connect CONN SERVICE [resources=4] [depth=4] [retry=7] [rnr=7] [srq] [flow_control] [qp=N]
//	        [timeout=CODE] [cm_retries=N] [private=BYTES] [PATH]; RD: [eecn=N | channel=CONN] [qkey=N]
//	                                      channel: that of another connection, which this one joins
//	                                      PATH: to=IP from=IP mtu=1024 lifetime=CODE pkey=K traffic_class=N
//	                                      hop_limit=N flow_label=N sl=N
//	accept CONN [resources=N] [depth=N] [rnr=7] [srq] [flow_control] [qp=N] [private=BYTES]
//	rtu CONN · dreq CONN · drep CONN      [private=BYTES]
//	reject CONN [REASON] [info=BYTES] [private=BYTES]
//	mra CONN [CODE] · prepare_mra CONN [CODE]    [private=BYTES]; CODE: 24, 69 s
//	establish CONN                        data has come in place of RTU
//	lap CONN [PATH] · apr CONN [STATUS] [info=BYTES]   [private=BYTES]
//	load CONN [answer]                    the alternate path into the queue pair, or the EE context, which asks for REARM; answer: then APR
//	alternate CONN                        shows the alternate path
//	channel CONN                          shows the reliable datagram channel
//	sidr CONN SERVICE [timeout=CODE] [cm_retries=N] [private=BYTES] [PATH]
//	sidr_answer CONN [STATUS] [qp=N] [qkey=N] [info=BYTES] [private=BYTES]
//	destroy CONN|LISTENER
//	move CONN INIT|RTR|RTS                the queue pair, of RD the EE context, with the connection's attributes
//	conns                                 what the communication manager holds
//
// The connection moves its queue pair as rdma_cm does: to INIT when there is a
// REQ, to RTS before REP or RTU leaves, to ERR before DREQ or DREP does and when
// a REJ comes; by_hand leaves that to the script. Reasons and statuses are
// numbers or names with _ for blanks, such as consumer_reject.
//
// # The peer, the network and time
//
//	< QP OPCODE [psn=N] [len=N|data=BYTES] [FIELD=V ...]
//	< EEC OPCODE ...                      destqp: the first queue pair of RD; srcqp=0x777701; eec
//	< XRC_TGT OPCODE ...                  srqn: the first shared receive queue of XRC
//
// hands the adapter a packet that is well-formed except for the given fields.
// OPCODE is a name with or without its service, 0xNN, or ACK, RNR_NAK,
// NAK_SEQUENCE, NAK_INVALID_REQUEST, NAK_REMOTE_ACCESS, NAK_REMOTE_OPERATIONAL.
// The default PSN of a request is the one after the peer's last, that of a
// response the last PSN that the adapter sent. va=MR+N sets the rkey too.
// Fields: ackreq se migreq fecn becn tver pkey destqp · va rkey dlen plt sel · add
// compare swap · imm inv · syndrome credits timer msn orig · qkey srcqp · src
// dst ttl tos · pad=N (PadCnt alone) · cut=N (bytes off the end, before the
// ICRC) · raw=HEX (all but the ICRC) · corrupt=BYTE (after it).
//
// Connection messages work the same way, well-formed except for the given
// fields:
//
//	< CONN MESSAGE [FIELD=V ...]          REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR
//	< CONN MESSAGE again                  the last one of this kind once more
//	< QP1 MAD [class=C] [method=M] [attr=A] ... [data=BYTES]   any other datagram
//	< QP1 OPCODE ...                      any packet to the adapter's own QP1
//
// The peer of the N-th connection has the communication ID 0x5000+N and, without a queue pair of
// the connection, the QPN 0x777780+N, of RD the EE context 0x555580+N; its node is
// 0x020000fffe000002. comm and request are the sender's ID, remote the receiver's: a connection's
// name stands for either, as known from the messages so far. A message goes to the adapter's side
// of CONN; a REQ or SIDR_REQ that a listener takes creates that side, with this name or, if it is
// taken, CONN.2 and on. Field names are short forms of those in package mad:
//
//	REQ       comm service transport extended qp eecn remote_eecn rdc_exists psn mtu resources depth retry rnr timeout local_timeout cm_retries
//	          pkey srq flow_control guid qkey vendor private, of the path gid remote_gid ack_timeout flow_label
//	          traffic_class hop_limit sl rate lid remote_lid subnet_local, of the alternate path alt_gid and so on
//	REP       comm remote qp eecn psn resources depth rnr ack_delay failover srq flow_control guid qkey vendor private
//	MRA       comm remote message timeout private
//	REJ       comm remote message reason info info_len private
//	RTU, DREP comm remote private
//	DREQ      comm remote remote_qp private
//	LAP       comm remote remote_qp timeout private, and of the path as REQ
//	APR       comm remote status info info_len private
//	SIDR_REQ  request service pkey private
//	SIDR_REP  request service status qp qkey vendor info info_len private
//	all       base class version method attr attr_mod mad_status tid · src dst srcqp tos
//
//	+5ms · +next                          time passes, to the next deadline; timers fire on the way
//	net blocked|open                      blocked: nothing is transmitted
//	counters NAME ...                     totals, also of what other lines explain
//	transmit                              one batch through a blocked network
//	batch N                               bytes of a batch, at least 4160
//	address IP lost|back                  a local address of the port
//	rate QP KBPS [burst=N]                limits what a queue pair sends
//
// # Output
//
//	@5ms                                  the time of what follows, when it has changed
//	> QP OPCODE psn=N ...                 a packet sent; of the BTH only what is not usual
//	wc QP ID STATUS ...                   a completion, polled at once; "cqe ... in CQ" one that waits
//	                                      in a manual CQ; "lost cqe" one that found its CQ full
//	event NAME EVENT · notify CQ · QP: FROM -> TO (CAUSE) · retry QP from psn=N (CAUSE)
//	> CONN MESSAGE ...                    a message of a connection: its fields, without those that are zero,
//	                                      and of addresses, keys, times and node only what is not usual
//	> CONN MESSAGE again                  the same as before, to the byte
//	CONN: FROM -> TO (CAUSE)              a connection's state, or the state of its alternate path
//	event CONN EVENT ...                  what its consumer hears, with reason, status and private data
//	drop QP psn=N (REASON)                an arriving packet without effect
//	mem MR+N: BYTES                       memory that changed
//	count: NAME +N, ...                   counters that changed and that no other line explains
//	! ...                                 what must never be
package script
