package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/decode"
	"github.com/softhca/softhca/cmd/softhca/internal/text"
)

func newDecodeCommand() *cobra.Command {
	d := &decoding{}
	cmd := &cobra.Command{
		Use:   "decode FILE",
		Short: "Print the RoCEv2 packets of a capture file and check their ICRC",
		Long: `decode prints a line for each RoCEv2 packet (UDP port 4791) of a pcap or pcapng file. It knows the link types Ethernet
(with VLANs), raw IP, Linux cooked and BSD loopback. FILE may be - for standard input, and may be compressed with gzip.

--qp, --op, --time and --addr select packets. Each takes a comma-separated list and may be repeated; a packet must match
one value of each given option:

  --qp 0x11,18                 to this queue pair, or datagrams from it
  --op WRITE,NAK               an opcode (RC_SEND_ONLY), some of its words (SEND, WRITE, UD), a kind of acknowledgement (ACK, NAK, RNR_NAK, NAK_SEQUENCE) or a message of the connection manager (REQ, REJ)
  --time 1.5..2 or ..20ms      from and to, since the first RoCE packet, as the second column shows; or dates: 2026-01-31T12:00:00Z.. (UTC if no zone is given)
  --addr 10.0.0.1,fd00::/8     to or from this address or network

-x prints the payload as tcpdump -X does: offset, bytes, text; for a malformed packet, everything after the UDP header.
With --json the payload is in the member "data".

For packets to QP1 decode shows the management datagram, and for those of the connection manager the message: REQ, REP,
RTU, REJ and so on. The line has the fields that identify the connection; --json has every field. Trailing zeros of
private data, which always fills its field, are omitted.

The last line counts the packets to port 4791: with a right ICRC, with a wrong ICRC, malformed, and not selected.
Packets that the capture cut off ("truncated") count as malformed. With --json the last line goes to standard error, and
standard output has one object per packet and nothing else. The output is colored on terminals, unless NO_COLOR is set.

The exit code is 1 if a selected packet is bad or the file is damaged.`,
		Example: `  softhca decode capture.pcapng
  softhca decode --json capture.pcap
  softhca decode - < capture.pcap
  softhca decode --op NAK,RNR_NAK capture.pcap       refused requests
  softhca decode --qp 0x11 --time 1.5..2 capture.pcap
  softhca decode --op SEND -x capture.pcap           with the payload
  softhca decode --addr 10.0.0.0/8 --json capture.pcap`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("decode needs one FILE, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.run(cmd, args[0])
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&d.asJSON, "json", false, "print one JSON object per packet")
	fs.BoolVarP(&d.options.Payload, "hex", "x", false, "also print the payload")
	f := &d.options.Filter
	fs.Var(&terms{kind: "numbers", add: f.AddQP}, "qp", "only packets of these queue pairs, such as 0x11,18")
	fs.Var(&terms{kind: "operations", add: f.AddOp}, "op", "only these operations, such as SEND,NAK,REQ")
	fs.Var(&terms{kind: "ranges", add: f.AddTime}, "time", "only packets from one time to another, such as 1.5..2 or ..20ms")
	fs.Var(&terms{kind: "addresses", add: f.AddAddr}, "addr", "only packets to or from these, such as 10.0.0.1,fd00::/8")
	return cmd
}

// terms is the value of an option that takes a list with commas and may be repeated.
type terms struct {
	kind  string
	add   func(string) error
	given []string
}

// Set adds the values of a list.
func (t *terms) Set(list string) error {
	for s := range strings.SplitSeq(list, ",") {
		if err := t.add(strings.TrimSpace(s)); err != nil {
			return err
		}
	}
	t.given = append(t.given, list)
	return nil
}

// String returns the given values.
func (t *terms) String() string { return strings.Join(t.given, ",") }

// Type returns the name of the values in help.
func (t *terms) Type() string { return t.kind }

// decoding is a run of decode.
type decoding struct {
	asJSON  bool
	options decode.Options
}

func (d *decoding) run(cmd *cobra.Command, name string) (err error) {
	in := cmd.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("decode: %w", err)
		}
		defer f.Close()
		in = f
	}
	if in, err = unzipped(in); err != nil {
		return fmt.Errorf("decode %s: %w", name, err)
	}
	out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
	emit, last := decode.Text, io.Writer(out)
	if d.asJSON {
		emit, last = decode.JSON, cmd.ErrOrStderr()
	}
	d.options.Colors = colored(cmd.OutOrStdout())
	sum, err := emit(in, out, d.options)
	if err == nil || sum.Packets > 0 {
		_, lastErr := fmt.Fprintln(last, sum)
		err = errors.Join(err, lastErr)
	}
	if err := errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("decode %s: %w", name, err)
	}
	if bad := sum.Bad(); bad > 0 {
		return fmt.Errorf("decode %s: %d of %s bad", name, bad, text.Count(sum.RoCE-sum.LeftOut, "RoCE packet is", "RoCE packets are"))
	}
	return nil
}
