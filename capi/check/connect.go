//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// meeting is a server and its client that connect by rdma_cm. SERVER and CLIENT in their
// arguments stand for the addresses, DIR for their directory.
type meeting struct {
	section, server, client string
	addrs                   [2]string     // of server and client; empty: two loopback addresses, and then one
	port                    int           // the TCP port on which the server listens before it opens the adapter
	stays                   bool          // the server continues when its client has ended
	endsIn                  []string      // suites in which the server ends with its client, although stays is set
	says                    string        // text that the server must print, with the same placeholders
	same                    [2]string     // files of DIR that must be equal in the end, if any
	segments                uint64        // maximum number of segments that TCP sends meanwhile; 0: no bound
	source                  string        // name in sources of our own program for both sides, built in DIR
	libs                    []string      // libraries of that program, as options of gcc
	files                   [][2]string   // names and contents of files that the programs need in DIR
	within                  time.Duration // time for the client to end; 0: limit
	skip                    string
}

// variants returns a meeting between two addresses, and the same meeting on one address.
func (m *meeting) variants() []meeting {
	two, one := *m, *m
	if m.skip != "" || m.addrs[0] != "" && m.addrs[0] == m.addrs[1] {
		return []meeting{one}
	}
	if m.addrs[0] == "" {
		two.addrs = addrs4
	}
	one.addrs = [2]string{two.addrs[0], two.addrs[0]}
	one.client += onOne
	return []meeting{two, one}
}

// meetings lists them all.
var meetings = []meeting{
	{section: "rdmacm-utils", server: "rping -s -C 100 -v -a SERVER", client: "rping -c -C 100 -v -a SERVER"},
	{section: "rdmacm-utils", server: "ucmatose -c 16 -C 20 -b SERVER", client: "ucmatose -c 16 -C 20 -s SERVER"},
	{section: "rdmacm-utils", server: "ucmatose -m -b SERVER", client: "ucmatose -m -s SERVER"},
	{section: "rdmacm-utils", server: "udaddy -c 4 -b SERVER", client: "udaddy -c 4 -s SERVER"},
	{section: "rdmacm-utils", server: "mckey -m 239.1.2.3 -b SERVER", client: "mckey -m 239.1.2.3 -b CLIENT -s"},
	{section: "rdmacm-utils", server: "rdma_server", client: "rdma_client -s SERVER"},
	{section: "rdmacm-utils", server: "rdma_xserver", client: "rdma_xclient -s SERVER"},
	{section: "rdmacm-utils", server: "rdma_xserver -c x", client: "rdma_xclient -c x -s SERVER"},
	{section: "rdmacm-utils", server: "cmtime -b SERVER", client: "cmtime -c 100 -s SERVER", stays: true, endsIn: []string{"trixie"}},
	{section: "rdmacm-utils", server: cmtime65 + " SERVER -L -b SERVER -c 100", client: cmtime65 + " SERVER -b CLIENT -c 100"},
	{section: "rdmacm-utils", server: "rstream -b SERVER", client: "rstream -s SERVER"},
	{section: "rdmacm-utils", server: "riostream -S 1000 -I 10 -C 10 -b SERVER", client: "riostream -S 1000 -I 10 -C 10 -s SERVER"},
	{section: "rdmacm-utils", server: "rcopy", client: "rcopy DIR/softhca-engine.so SERVER:DIR/copied", stays: true},
	{
		section: "rdmacm-utils", server: "udpong", client: "udpong -s SERVER",
		skip: "librdmacm makes address handles without a GRH for datagrams of rsockets, which RoCE cannot have",
	},
	{section: "perftest", server: "ib_write_bw -R -n 500 -F", client: "ib_write_bw -R -n 500 -F SERVER"},
	{section: "perftest", server: "ib_read_bw -R -n 500 -F", client: "ib_read_bw -R -n 500 -F SERVER"},
	{section: "perftest", server: "ib_send_lat -R -n 500 -F", client: "ib_send_lat -R -n 500 -F SERVER"},
	{section: "perftest", server: "ib_send_bw -R -c UD -n 200 -F", client: "ib_send_bw -R -c UD -n 200 -F SERVER"},
	overUCX(),
	overRPMA(rpma12, "", ""),
	overRPMA(rpma12, "-s ", "and a server with a shared receive queue"),
	overRPMA(rpma12, "-p ", "and a server whose memory is a file, flushed for persistence"),
	overRPMA(rpma13, "", "FLUSH and ATOMIC WRITE"),
	overRPMA(rpma13, "-s ", "and a server with a shared receive queue"),
	overRPMA(rpma13, "-p ", "and a server whose memory is a file, FLUSH for persistence"),
	pingpong("msg", "verbs"),
	pingpong("rdm", "verbs;ofi_rxm"),
	pingpong("dgram", "verbs"),
	qperf("rc_lat"),
	qperf("rc_bw"),
	qperf("rc_bi_bw"),
	qperf("rc_rdma_read_lat"),
	qperf("rc_rdma_read_bw"),
	qperf("rc_rdma_write_lat"),
	qperf("rc_rdma_write_poll_lat"),
	qperf("rc_rdma_write_bw"),
	qperf("rc_compare_swap_mr"),
	qperf("rc_fetch_add_mr"),
	{section: "fio", server: fio("write", "read"), client: fio("write", "write")},
	{section: "fio", server: fio("read", "read"), client: fio("read", "write")},
	{section: "fio", server: fioReceiver(), client: fio("send", "write")},
	{section: "fio", server: fioReceiver() + " --verify=crc32c --verify_state_save=0", client: fio("send", "write") + " --verify=crc32c --verify_state_save=0 --do_verify=0"},
	{
		// Each of two forked jobs has a port: fio gives those of --numjobs the same one,
		// where the second cannot listen.
		section: "fio", server: fio("write", "read") + " " + fioAgain("read"), client: fio("write", "write") + " " + fioAgain("write"),
	},
}

// fio returns the command of one side of fio's RDMA engine: the side that reads is the server.
func fio(verb, rw string) string {
	return "fio --name=job --ioengine=rdma --hostname=SERVER --port=8321 --bs=64k --size=8m --iodepth=16 --verb=" + verb + " --rw=" + rw
}

// fioReceiver returns the server of fio's SENDs, which posts a receive for each of the 128
// blocks at the start. With no more receives than the client's 16 SENDs in flight, the case
// depends on the scheduler, on every adapter: fio connects with an RNR retry count of 0, and a
// SEND completes when it arrives, which may be before the server has posted its next receive.
// The client's next SEND then fails with RNR_RETRY_EXC_ERR, and both sides sleep forever: the
// client waits for another completion event, and the server for the rest of the data. Of two
// equal options, fio takes the last.
func fioReceiver() string { return fio("send", "read") + " --iodepth=128" }

// fioAgain returns the options of a side's second job.
func fioAgain(rw string) string {
	return "--name=again --ioengine=rdma --hostname=SERVER --port=8322 --bs=64k --size=8m --iodepth=16 --verb=write --rw=" + rw
}

// overUCX returns a program that connects by rdma_cm through UCX.
func overUCX() meeting {
	const program = "env UCX_SOCKADDR_TLS_PRIORITY=rdmacm UCX_TLS=rc_verbs,ud_verbs DIR/meet "
	return meeting{
		section: "libucx0", source: "ucx/meet.c", libs: []string{"-lucp", "-lucs"},
		server: program + "SERVER", client: program + "-c SERVER",
	}
}

// rpma12 and rpma13 begin the commands of clients with librpma 1.2 and 1.3. Version 1.3 posts FLUSH
// and ATOMIC WRITE, which -n requires; 1.2 posts a READ and a WRITE in their place.
const (
	rpma12 = "DIR/pool -c "
	rpma13 = "DIR/pool -c -n "
)

// overRPMA returns a program whose server shares memory through librpma. options are the server's
// options, and with says what they do.
func overRPMA(client, options, with string) meeting {
	m := meeting{
		section: "librpma0", source: "rpma/pool.c", libs: []string{"-lrpma", "-libverbs"},
		server: "DIR/pool " + options + "SERVER", client: client + "SERVER",
	}
	if with != "" {
		m.client += " # " + with
	}
	return m
}

// pingpong returns libfabric's own test program.
func pingpong(endpoint, provider string) meeting {
	const program = "fi_pingpong -I 100 -c -e "
	return meeting{
		section: "libfabric-bin", server: program + endpoint + " -p " + provider, client: program + endpoint + " -p " + provider + " SERVER",
		addrs: outside, port: 47592,
	}
}

// qperf returns a test of qperf. The server forks a process for each client. On every adapter
// that process crashes at the end: it destroys the queue pair of the listening ID, which has
// none. Its client must still be disconnected, and at once.
func qperf(test string) meeting {
	return meeting{
		section: "qperf", server: "qperf", client: "qperf -cm 1 -t 1 SERVER " + test,
		port: 19765, stays: true, within: 30 * time.Second,
	}
}

// grace is how long a server may take to listen after it has opened the adapter: perftest's
// clients crash when they are rejected.
const grace = time.Second

// meet runs a server, and starts its client when the server has opened its adapter.
func (s *stand) meet(ctx context.Context, m *meeting) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if m.source != "" {
		if _, err := s.compile(ctx, "gcc", m.source, m.libs...); err != nil {
			return err
		}
	}
	names := strings.NewReplacer("SERVER", m.addrs[0], "CLIENT", m.addrs[1], "DIR", s.lib)
	for _, f := range m.files {
		if err := os.WriteFile(filepath.Join(s.lib, f[0]), []byte(names.Replace(f[1])), 0o600); err != nil {
			return err
		}
	}
	args := func(line string) []string {
		line, _, _ = strings.Cut(line, " #")
		return strings.Fields(names.Replace(line))
	}
	before, err := segments()
	if err != nil {
		return err
	}
	var served, said bytes.Buffer
	server := s.launched(ctx, m.addrs[:1], &served, args(m.server)...)
	if err := server.Start(); err != nil {
		return err
	}
	if m.port != 0 {
		err = server.listens(m.port)
	} else {
		err = server.opens(m.addrs[0])
	}
	if err == nil {
		soon, cancel := context.WithTimeout(ctx, cmp.Or(m.within, limit))
		err = s.launched(soon, m.addrs[1:], &said, args(m.client)...).Run()
		cancel()
	}
	serr := server.end(m.stays && !slices.Contains(m.endsIn, s.suite), err)
	if err != nil || serr != nil {
		return fmt.Errorf("client: %v: %s\nserver: %v: %s", err, last(said.String()), serr, last(served.String()))
	}
	if want := names.Replace(m.says); !strings.Contains(served.String(), want) {
		return fmt.Errorf("the server does not say %q: %s", want, last(served.String()))
	}
	return errors.Join(m.sent(before), s.equal(m.same))
}

// opens waits until an adapter has its UDP socket on an address, and then for the grace period.
func (p *program) opens(addr string) error {
	a := netip.MustParseAddr(addr).As4()
	line := fmt.Appendf(nil, "%08X:%04X", binary.NativeEndian.Uint32(a[:]), 4791)
	err := p.until("its adapter is on "+addr, func() (bool, error) {
		sockets, err := os.ReadFile("/proc/net/udp")
		return bytes.Contains(sockets, line), err
	})
	if err != nil {
		return err
	}
	select {
	case <-p.ctx.Done():
		return fmt.Errorf("%s: waiting until it listens: %w", filepath.Base(p.Path), p.ctx.Err())
	case <-time.After(grace):
		return nil
	}
}
