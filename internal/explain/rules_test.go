package explain

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// Where things are in a frame.
const (
	atID       = ethernet + 4
	atFlags    = ethernet + 6
	atTOS      = ethernet + 1
	atPort     = ethernet + ipudp.IPv4Len
	atPad      = headers + 1
	atPKey     = headers + 2
	atSyndrome = headers + roce.BTHLen
	atQKey     = headers + roce.BTHLen
	atMAD      = headers + roce.BTHLen + 8
	atCM       = atMAD + mad.HeaderSize
)

// one returns a change of the frame with an index.
func one(i int, change func(f *frame)) func(s *scene) {
	return func(s *scene) { change(&s.frames[i]) }
}

// reject makes the REJ of a capture say another reason.
func reject(reason mad.RejReason) func(s *scene) {
	return one(1, func(f *frame) {
		binary.BigEndian.PutUint16(f.data[atCM+10:], uint16(reason))
		f.seal()
	})
}

// silent loses what the server sends from the frame with an index on.
func silent(from int) func(s *scene) {
	return func(s *scene) { s.keep(func(i int, f *frame) bool { return i < from || f.from() == client }) }
}

// from leaves only what one host sends.
func from(host byte) func(s *scene) {
	return func(s *scene) { s.keep(func(_ int, f *frame) bool { return f.from() == host }) }
}

// gaveUp has the client say so, after unanswered requests.
func gaveUp(s *scene) {
	silent(0)(s)
	last := len(s.frames) - 1
	s.repeat(last, time.Second)
	f := &s.frames[last+1]
	var rej mad.REJ
	rej.LocalCommID = binary.BigEndian.Uint32(f.data[atCM:])
	rej.Message, rej.Reason = mad.WhichOther, mad.RejTimeout
	m := (*mad.MAD)(f.data[atMAD : atMAD+mad.Size])
	binary.BigEndian.PutUint16(f.data[atMAD+16:], uint16(mad.AttrREJ))
	clear(m[mad.HeaderSize:])
	rej.Put(m)
	f.seal()
}

// cases has, for each rule, a capture that shows it: one of Linux as it is, or
// changed as a network or an adapter would change what passes.
var cases = []struct {
	rule    ruleID
	capture string
	change  func(s *scene)
	detail  string // part of the text
}{
	{requestLost, "loss_send_middle.client", nil, "which the NAK in record"},
	{requestLostUpstream, "loss_send_middle.server", nil, "PSN 0x12345a"},
	{requestLostUpstream, "netem_loss.client", nil, ""},
	{requestLate, "netem_reorder.client", nil, "later"},
	{requestDuplicated, "netem_dup.client", nil, ""},
	{sequenceNAK, "loss_send_middle.client", from(server), "the NAK for PSN 0x"},
	{timeoutRepeat, "loss_ack.client", nil, "of silence"},
	{timeoutRepeat, "loss_read_req.client", nil, "READ_REQUEST"},
	{answerLost, "loss_ack.server", nil, ""},
	{answerLost, "netem_delay_spurious.client", nil, ""},
	{nakLost, "netem_loss.client", nil, "the NAK for PSN"},
	{readResponseLost, "loss_read_rsp_last.server", nil, ""},
	{readResponseGap, "loss_read_rsp_middle.client", nil, "the response at PSN 0x12345a"},
	{answerMissing, "loss_read_pipe_rsp.client", nil, ""},
	{atomicReplayed, "loss_atomic_ack.server", nil, "original value"},
	{atomicReplayed, "loss_cas_ack.server", nil, "original value"},
	{noAnswer, "errs_peer_reset", nil, "2 repeats, to 10.77.0.2 QP 0x0000bd"},
	{noAnswer, "errs_peer_destroyed", nil, "WRITE of 100 bytes"},
	{wentSilent, "loss_every5_send.client", silent(12), "repeats, to 10.77.0.2 QP 0x"},
	{answersIgnored, "loss_ack.server", func(s *scene) {
		s.frames = s.frames[:7] // up to the repeat and the answer to it
		s.repeat(6, 300*time.Millisecond)
		s.repeat(6, 300*time.Millisecond)
	}, "from 10.77.0.3"},
	{retriesUsedUp, "loss_every5_send.client", nil, "repeats without success"},
	{retriesUsedUp, "loss_every5_send.server", nil, "repeats without success"},
	{psnAhead, "errs_psn_ahead", nil, "0x123455"},
	{psnBehind, "errs_psn_behind", nil, "0x12344d"},
	{psnBehind, "errs_psn_behind_read", nil, "0x12344d"},
	{rnrWait, "errs_rnr_then_ok", nil, "after an RNR NAK"},
	{rnrWait, "errs6_rnr_then_ok", nil, "after an RNR NAK"},
	{rnrWait, "errs_rnr_then_ok", from(server), "not in this capture"},
	{rnrUnresolved, "errs_rnr_exceeded", nil, "3 RNR NAKs"},
	{rnrUnresolved, "errs_rnr_zero_retry", nil, "1 RNR NAK with"},
	{answersDoubtful, "", answeredLate(10*time.Millisecond, 60*time.Millisecond), "the answer came 60ms after the last repeat"},
	{rnrUnheard, "", notReady(maxHeeded+1, 2), "10 RNR NAKs with a timer of 10µs"},
	{rnrOrSilence, "", notReady(maxHeeded, 1), "8 RNR NAKs"},
	{rnrOrSilence, "", notReady(0, 1), "2 RNR NAKs"},
	{rnrUnresolved, "", notReady(maxHeeded, 0), "7 RNR NAKs"},
	{rnrWaits, "", notReady(maxHeeded+1, 0), "8 RNR NAKs"},
	{keyInvalidated, "errs_mw_send_inv", nil, "in record 5; record 3, a SEND with invalidate, invalidated this R_Key"},
	{writeRefused, "errs_bad_rkey_write", nil, "WRITE of 100 bytes"},
	{writeRefused, "errs_bad_rkey_write_multi", nil, "WRITE of 3072 bytes"},
	{readRefused, "errs_read_noperm", nil, "READ of 100 bytes"},
	{atomicRefused, "errs_atomic_noperm", nil, "FETCH_ADD"},
	{flushRefused, "", refusedFlush, "FLUSH"},
	{keyGone, "", again(64), "in record 3; record 1 used the same R_Key for the same bytes with success"},
	{keyGone, "", again(32), "WRITE of 32 bytes"},
	{writeRefused, "", again(65), "in record 3; record 1 used the same R_Key with success"},
	{unalignedAtomic, "", refusedAtomic(roce.RCFetchAdd), "FETCH_ADD of 8 bytes to 0x1004"},
	{unalignedAtomic, "", refusedAtomic(roce.RCAtomicWrite), "ATOMIC_WRITE of 8 bytes to 0x1004"},
	{queueUnknown, "", overXRC(0x77), "SEND of 4 bytes at PSN 0x000101, in record 3, for shared receive queue 0x000077"},
	{invalidRequest, "", overXRC(0x55), "for shared receive queue 0x000055, which record 1 reached"},
	{accessRefused, "errs_bad_rkey_write", from(server), "the NAK for PSN 0x"},
	{invalidRequest, "errs_qp_noperm_write", nil, "WRITE"},
	{invalidRequest, "errs_qp_noperm_write", from(server), "not in this capture"},
	{invalidRequest, "errs_mtu_mismatch_write", nil, "WRITE"},
	{operationalError, "errs_recv_bad_lkey", nil, "SEND"},
	{operationalError, "errs_send_too_long", nil, "SEND of 100 bytes"},
	{operationalError, "errs_send_too_long", from(server), "not in this capture"},
	{invalidRDRequest, "", refusedRD, "SEND"},
	{resync, "", refusedRD, "000102"},
	{refusalUnheard, "errs_bad_rkey_write", repeatedInVain(2), "write-refused: WRITE of 100 bytes"},
	{refusalLate, "errs_bad_rkey_write", repeatedInVain(1), "write-refused: WRITE of 100 bytes"},
	{unknownNAK, "errs_bad_rkey_write", func(s *scene) {
		s.each(0, func(f *frame) {
			if f.op() == roce.RCAcknowledge {
				f.data[atSyndrome] = 0x6a
				f.seal()
			}
		})
	}, "NAK(10)"},
	{nakRefuted, "", func(s *scene) { s.play(twoDone...).play("7 0 send", "7 2 access", "7 3 ack") }, "write-refused: SEND of 0 bytes"},
	{nakDoubtful, "", func(s *scene) { s.play("7 0 send", "7 0 access", "wait", "7 0 send", "7 1 ack") }, "write-refused: SEND of 0 bytes"},
	{invalidateFailed, "errs_wr_inv_bad_rkey", nil, "MSN 0"},
	{migrated, "errs_send", func(s *scene) {
		s.each(10, func(f *frame) {
			f.data[ethernet+13]++ // another net, for both
			f.data[ethernet+17]++
			f.data[atPad] |= 0x40
			f.seal()
		})
	}, "to 10.78.0.3 > 10.78.0.2"},
	{lengthWrong, "errs_send", func(s *scene) {
		s.each(0, func(f *frame) {
			if f.op() == roce.RCSendMiddle {
				f.cut(8)
			}
		})
	}, "1016 bytes"},
	{ucGap, "loss_uc_middle.server", nil, "1 from PSN"},
	{ucCut, "loss_uc_last.server", nil, "another begins"},
	{ucCut, "loss_uc_first.server", nil, "has no beginning"},
	{ucLength, "errs_uc_write", func(s *scene) {
		s.each(0, func(f *frame) {
			if f.op() == roce.UCRDMAWriteOnly && len(f.data) > headers+100 {
				f.cut(4)
			}
		})
	}, "its packets have "},
	{ucLength, "errs_uc_send", func(s *scene) {
		s.each(0, func(f *frame) {
			if f.op() == roce.UCSendMiddle {
				f.cut(8)
			}
		})
	}, "1016 bytes"},
	{udQKeyWrong, "cm_udaddy", func(s *scene) {
		s.each(0, func(f *frame) {
			if f.op() != roce.UDSendOnly {
				f.data[atQKey] ^= 1
				f.seal()
			}
		})
	}, "by the SIDR_REP in record 2"},
	{udTooLong, "", func(s *scene) {
		s.add(client, 0, &roce.Packet{BTH: bth(roce.UDSendOnly, 0x11, 5), DETH: roce.DETH{SrcQP: 7}, Payload: make([]byte, 4100)})
	}, "4100 bytes"},
	{udQKeys, "errs_ud_send", one(2, func(f *frame) { f.data[atQKey+3] ^= 1; f.seal() }), "0x"},
	{pkeysDiffer, "errs_send", one(1, func(f *frame) { f.data[atPKey+1] = 1; f.seal() }), "0x7f01 and 0x7fff"},
	{congestionMark, "errs_send", one(2, func(f *frame) { f.data[atTOS] |= 3 }), "10.77.0.3 > 10.77.0.2"},
	{congestionNotice, "", func(s *scene) {
		s.add(client, 0, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x11, 5)})
		s.add(server, time.Millisecond, &roce.Packet{BTH: bth(roce.CNP, 0x12, 0), Payload: make([]byte, 16)})
	}, "to QP 0x000012"},
	{icrcID, "errs_send", one(2, func(f *frame) { f.data[atID] ^= 0x12 }), "it was 0x"},
	{icrcFragmentFlag, "errs_send", one(2, func(f *frame) { f.data[atFlags] ^= 0x40 }), ""},
	{icrcPort, "errs_send", one(2, func(f *frame) { f.data[atPort] ^= 0x40 }), "it was 0x"},
	{icrcAddress, "errs_send", one(2, func(f *frame) { f.data[ethernet+14] ^= 0x40 }), "it was 10.77.0.3"},
	{icrcDamaged, "errs_send", one(2, func(f *frame) { f.data[headers+roce.BTHLen] ^= 1 }), "RC_SEND_ONLY"},
	{icrcLost, "errs_ud_send", one(2, func(f *frame) { f.data[headers+roce.BTHLen] ^= 1 }), "UD_SEND_ONLY"},
	{icrcLost, "errs_uc_send", one(2, func(f *frame) { f.data[headers+roce.BTHLen] ^= 1 }), "UC_SEND"},
	{icrcSender, "errs_send", func(s *scene) {
		s.each(0, func(f *frame) { f.data[len(f.data)-1] ^= 0xff; f.data[len(f.data)-2] ^= 0x55 })
	}, ""},
	{badOpcode, "errs_send", one(2, func(f *frame) { f.data[headers] = 0x1f }), ""},
	{badVersion, "errs_send", one(2, func(f *frame) { f.data[atPad] |= 1 }), ""},
	{badLength, "errs_send", one(2, func(f *frame) { f.cut(2) }), ""},
	{badPad, "errs_send", one(0, func(f *frame) { f.data[atPad] |= 0x30 }), ""},
	{unfinished, "errs_mw_send_inv", func(s *scene) { s.frames = s.frames[:5] }, "in record 5"},
	{unfinished, "cm_rping", func(s *scene) { s.frames = s.frames[:1] }, "the request for tcp:"},
	{oneDirection, "errs_send", from(client), "nothing from 10.77.0.2"},
	{oneDirection, "errs_send", from(server), "nothing from 10.77.0.3"},
	{nothingAnswers, "errs_ud_bad_qkey", nil, "5 messages from 10.77.0.3"},
	{nothingAnswers, "errs_uc_bad_rkey", nil, "2 messages from 10.77.0.3"},
	{cmNobodyListens, "cm_rping_noserver", nil, "tcp:9999"},
	{cmNobodyListens, "cm_rping_noserver_v6", nil, "invalid service"},
	{cmRefused, "cm_cmx_reject", nil, "consumer reject (28)"},
	{cmGaveUp, "cm_cmx_abort", nil, "timeout (4)"},
	{cmStale, "cm_cmx_reject", reject(mad.RejStaleConnection), "(10)"},
	{cmBadPath, "cm_cmx_reject", reject(mad.RejInvalidGID), "invalid GID (12)"},
	{cmNoResources, "cm_cmx_reject", reject(mad.RejNoQP), "(1)"},
	{cmUnsupported, "cm_cmx_reject", reject(mad.RejInvalidMTU), "(26)"},
	{cmOtherReject, "cm_cmx_reject", reject(mad.RejInvalidCommID), "(6)"},
	{cmOtherReject, "cm_cmx_reject", reject(200), "(200)"},
	{cmREQRepeated, "loss_cm_req.client", nil, "after the first"},
	{cmREQUnanswered, "loss_cm_req.client", silent(0), "2 times in 6.33s, for tcp:"},
	{cmREQUnanswered, "loss_cm_req.client", gaveUp, "then timeout (4), about no message, from 10.77.0.3"},
	{cmREPRepeated, "loss_cm_rtu.client", nil, "after the first"},
	{cmDREQRepeated, "cm_cmx_accept", func(s *scene) { s.repeat(message(s, mad.AttrDREQ), time.Second) }, "after the first"},
	{cmDREQUnanswered, "cm_cmx_accept", func(s *scene) {
		k := message(s, mad.AttrDREQ)
		s.frames = s.frames[:k+1]
		s.repeat(k, time.Second)
	}, "2 times"},
	{cmSlow, "cm_cmx_slow", nil, "from 10.77.0.2"},
	{cmLAPRepeated, "cm_cmx_accept", func(s *scene) { offered(s); s.repeat(message(s, mad.AttrLAP), time.Second) }, "1.6077s after the first"},
	{cmLAPUnanswered, "cm_cmx_accept", func(s *scene) { offered(s); s.repeat(message(s, mad.AttrLAP), time.Second) }, "2 times in 1.6077s"},
	{cmAlternateRefused, "cm_cmx_accept", func(s *scene) { // the RTU becomes an APR
		f := &s.frames[message(s, mad.AttrRTU)]
		binary.BigEndian.PutUint16(f.data[atMAD+16:], uint16(mad.AttrAPR))
		f.data[atCM+9] = byte(mad.APRInvalidGID)
		f.seal()
	}, "GID"},
	{sidrRefused, "cm_udaddy_noserver", nil, "for udp:"},
	{sidrRepeated, "loss_cm_sidr_req.client", nil, "after the first"},
	{sidrUnanswered, "loss_cm_sidr_req.client", silent(0), "2 times in 4.0774s, for"},
}

// answeredLate is a request that comes again after a time, if that is not 0, and is
// answered a while after that.
func answeredLate(again, answer time.Duration) func(s *scene) {
	return func(s *scene) {
		send := &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 2)}
		s.add(client, 0, send)
		if again != 0 {
			s.add(client, again, send)
		}
		s.add(server, answer, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 2), AETH: roce.AETH{Syndrome: roce.ACKCredits(31), MSN: 1}})
	}
}

// notReady is a request that is answered by RNR NAKs only. It comes again after the time
// that they ask for, and then as often after another time.
func notReady(heeded, other int) func(s *scene) {
	return func(s *scene) {
		for i := range 1 + heeded + other {
			after := ib.RNRTimer(1)
			if i > heeded {
				after = 100 * time.Millisecond
			}
			s.add(client, after, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 2)})
			s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 2), AETH: roce.AETH{Syndrome: roce.RNRNAK(1)}})
		}
	}
}

// repeatedInVain has the request before the last packet, which refuses it, come again.
func repeatedInVain(n int) func(s *scene) {
	return func(s *scene) {
		request := len(s.frames) - 2
		for range n {
			s.repeat(request, 100*time.Millisecond)
		}
	}
}

// offered makes a LAP of the RTU.
func offered(s *scene) {
	f := &s.frames[message(s, mad.AttrRTU)]
	binary.BigEndian.PutUint16(f.data[atMAD+16:], uint16(mad.AttrLAP))
	f.seal()
}

// TestAlternateOffered: who gets an answer, late, has offered no path in vain, and who
// offers another one repeats nothing.
func TestAlternateOffered(t *testing.T) {
	for name, change := range map[string]func(s *scene){
		"once": offered,
		"answered": func(s *scene) {
			offered(s)
			k := message(s, mad.AttrLAP)
			s.repeat(k, time.Second)
			s.repeat(k, time.Second)
			f := &s.frames[len(s.frames)-1]
			binary.BigEndian.PutUint16(f.data[atMAD+16:], uint16(mad.AttrAPR))
			f.data[atCM+9] = byte(mad.APRAccepted)
			f.seal()
		},
		"two": func(s *scene) {
			offered(s)
			k := message(s, mad.AttrLAP)
			s.repeat(k, time.Second)
			f := &s.frames[len(s.frames)-1]
			f.data[atMAD+15]++
			f.seal()
		},
	} {
		s := load(t, "cm_cmx_accept")
		change(s)
		for _, found := range s.explain().Findings {
			if found.id == cmLAPUnanswered || found.id == cmLAPRepeated && name != "answered" {
				t.Errorf("%s: %v", name, found.Rule)
			}
		}
	}
}

// TestErrorPages follows what findings name: there are such headings, and a page of
// its own for each reason of a REJ that has a name.
func TestErrorPages(t *testing.T) {
	headings := func(page string) string {
		b, err := os.ReadFile("../../" + page)
		must.Do(t, err)
		var all strings.Builder
		for line := range strings.Lines(string(b)) {
			if name, ok := strings.CutPrefix(line, "## "); ok {
				all.WriteString("#" + strings.ReplaceAll(strings.ToLower(name), " ", "-"))
			}
		}
		return all.String()
	}
	var pages []string
	for i := range table {
		pages = append(pages, table[i].ErrorPages()...)
	}
	statuses := len(pages)
	for r := range mad.RejReason(64) {
		if name := r.String(); !strings.ContainsAny(name, "0123456789") && name != "" {
			pages = append(pages, rejectPage(r))
		}
	}
	if statuses < 15 || len(pages)-statuses < 30 {
		t.Errorf("only %d pages of statuses, %d of reasons", statuses, len(pages)-statuses)
	}
	known := map[string]string{}
	for _, p := range pages {
		file, anchor, _ := strings.Cut(p, "#")
		if known[file] == "" {
			known[file] = headings(file)
		}
		if !strings.Contains(known[file], "#"+anchor+"\n") {
			t.Errorf("there is no %s", p)
		}
	}
	if got := rejectPage(200); got != "docs/rejects.md" {
		t.Errorf("a reason without a name is on %s", got)
	}
	for _, c := range []struct{ capture, page string }{
		{"errs_peer_reset", "docs/statuses.md#retry_exc_err"},
		{"cm_rping_noserver", "docs/rejects.md#8-invalid-service-id"},
		{"cm_cmx_reject", "docs/rejects.md#28-consumer-reject"},
		{"loss_ack.client", ""},
	} {
		r := load(t, c.capture).explain()
		if got := strings.Join(r.Verdict.ErrorPages, " "); got != c.page {
			t.Errorf("%s: %q, want %q", c.capture, got, c.page)
		}
		var text bytes.Buffer
		if err := r.Text(&text, TextOptions{}); err != nil || c.page != "" && !strings.Contains(text.String(), " "+c.page+"\n") {
			t.Errorf("%s: %q is missing in\n%s", c.capture, c.page, text.String())
		}
	}
}

// message returns the index of the first CM message of a kind.
func message(s *scene, attr mad.AttrID) int {
	return slices.IndexFunc(s.frames, func(f frame) bool {
		return f.op() == roce.UDSendOnly && binary.BigEndian.Uint16(f.data[atMAD+16:]) == uint16(attr)
	})
}

// refusedFlush is a FLUSH for persistence of a region without the right.
func refusedFlush(s *scene) {
	s.add(client, 0, &roce.Packet{
		BTH: bth(roce.RCFlush, 0x11, 0x100), FETH: roce.FETH{Placement: roce.PlacementPersistence},
		RETH: roce.RETH{VA: 0x1000, RKey: 7, Length: 64},
	})
	s.add(server, time.Millisecond, &roce.Packet{
		BTH: bth(roce.RCAcknowledge, 0x12, 0x100), AETH: roce.AETH{Syndrome: roce.NAKRemoteAccess, MSN: 1},
	})
}

// again is a WRITE of 64 bytes, and a WRITE of length bytes to the same address with the same key, which
// is refused.
func again(length uint32) func(s *scene) {
	return func(s *scene) {
		write := &roce.Packet{BTH: bth(roce.RCRDMAWriteOnly, 0x11, 0x100), RETH: roce.RETH{VA: 0x1000, RKey: 7, Length: 64}, Payload: make([]byte, 64)}
		s.add(client, 0, write)
		s.add(server, time.Millisecond, &roce.Packet{
			BTH: bth(roce.RCAcknowledge, 0x12, 0x100), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: 1},
		})
		write.BTH.PSN, write.RETH.Length, write.Payload = write.BTH.PSN.Next(), length, make([]byte, length)
		s.add(client, time.Millisecond, write)
		s.add(server, time.Millisecond, &roce.Packet{
			BTH: bth(roce.RCAcknowledge, 0x12, 0x101), AETH: roce.AETH{Syndrome: roce.NAKRemoteAccess, MSN: 1},
		})
	}
}

// refusedAtomic is an atomic at an address that is not a multiple of 8.
func refusedAtomic(op roce.Opcode) func(s *scene) {
	return func(s *scene) {
		p := &roce.Packet{BTH: bth(op, 0x11, 0x100)}
		if op == roce.RCAtomicWrite {
			p.RETH, p.Payload = roce.RETH{VA: 0x1004, RKey: 7, Length: 8}, make([]byte, 8)
		} else {
			p.AtomicETH = roce.AtomicETH{VA: 0x1004, RKey: 7}
		}
		s.add(client, 0, p)
		s.add(server, time.Millisecond, &roce.Packet{
			BTH: bth(roce.RCAcknowledge, 0x12, 0x100), AETH: roce.AETH{Syndrome: roce.NAKInvalidRequest, MSN: 1},
		})
	}
}

// overXRC is a SEND over XRC to queue 0x55, and a SEND to queue srqn, which is refused.
func overXRC(srqn uint32) func(s *scene) {
	return func(s *scene) {
		for i, to := range []uint32{0x55, srqn} {
			s.add(client, time.Millisecond, &roce.Packet{
				BTH: bth(roce.XRCSendOnly, 0x11, 0x100+uint32(i)), XRCETH: roce.XRCETH{SRQN: to}, Payload: make([]byte, 4),
			})
			s.add(server, time.Millisecond, &roce.Packet{
				BTH:  bth(roce.XRCAcknowledge, 0x12, 0x100+uint32(i)),
				AETH: roce.AETH{Syndrome: [...]roce.Syndrome{roce.ACKUnlimited, roce.NAKInvalidRequest}[i], MSN: 1},
			})
		}
	}
}

// refusedRD is a reliable datagram that is refused, and what follows.
func refusedRD(s *scene) {
	rd := func(op roce.Opcode, eec uint32, psn uint32) *roce.Packet {
		return &roce.Packet{BTH: bth(op, 0x21, psn), RDETH: roce.RDETH{EEC: eec}}
	}
	s.add(client, 0, rd(roce.RDSendOnly, 0x11, 0x100))
	s.add(server, time.Millisecond, &roce.Packet{
		BTH: bth(roce.RDAcknowledge, 0x22, 0x100), RDETH: roce.RDETH{EEC: 0x12}, AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: 1},
	})
	s.add(client, time.Millisecond, rd(roce.RDSendOnly, 0x11, 0x101))
	s.add(server, time.Millisecond, &roce.Packet{
		BTH: bth(roce.RDAcknowledge, 0x22, 0x101), RDETH: roce.RDETH{EEC: 0x12}, AETH: roce.AETH{Syndrome: roce.NAKInvalidRD, MSN: 1},
	})
	s.add(client, time.Millisecond, rd(roce.RDResync, 0x11, 0x102))
}

// TestRules shows every rule a capture in which it is to be found.
func TestRules(t *testing.T) {
	// Others are shown by TestFaultCaptures, TestFaultsLeaveMarks, TestSpoiltAnswers, TestLateAnswers and TestEmptyCaptures.
	shown := map[ruleID]bool{faultAsked: true, faultLost: true, answerSpoilt: true, answersLost: true, answersLate: true, faultDelayed: true, noPackets: true,
		completionError: true, callFailed: true, cqOverrun: true, // TestK3_Findings
	}
	for _, c := range cases {
		shown[c.rule] = true
		rule := &table[c.rule]
		t.Run(rule.Name+"/"+c.capture, func(t *testing.T) {
			s := &scene{t: t}
			if c.capture != "" {
				s = load(t, c.capture)
			}
			if c.change != nil {
				c.change(s)
			}
			r := s.explain()
			i := slices.IndexFunc(r.Findings, func(f *Finding) bool { return f.id == c.rule })
			if i < 0 {
				t.Fatalf("not found, but %s", names(r))
			}
			if f := r.Findings[i]; !strings.Contains(f.Detail, c.detail) {
				t.Errorf("the detail is %q, not %q", f.Detail, c.detail)
			}
			if rule.Severity == Failed && r.Verdict.Outcome != "failed" {
				t.Errorf("the verdict is %+v", r.Verdict)
			}
		})
	}
	for id := range numRules {
		if !shown[id] {
			t.Errorf("no capture shows %s", table[id].Name)
		}
	}
}

// names lists the rules of the findings.
func names(r *Report) string {
	var all []string
	for _, f := range r.Findings {
		all = append(all, f.Rule)
	}
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(all))), " ")
}
