package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/decode"
)

func newDecodeCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "decode FILE",
		Short: "Print the RoCEv2 packets of a capture file and check their ICRC",
		Long: `decode prints a line for each RoCEv2 packet (UDP port 4791) of a pcap or pcapng file: Ethernet, VLAN,
raw IP, Linux cooked and BSD loopback. FILE may be - for standard input.

Of a packet to QP1 it shows the management datagram, and of one of the connection manager the message: REQ, REP, RTU,
REJ and so on. The line has what tells connections apart, --json has every field. The zeros at the end of private data,
which always fills its field, are left out.

The last line counts: every packet to port 4791 has a right ICRC, a wrong one, or is malformed, which includes
packets that the capture cut off ("truncated"). With --json it goes to standard error and standard output has
one object per packet and nothing else.

The exit code is 1 if any packet is bad or the file is damaged.`,
		Example: `  softhca decode capture.pcapng
  softhca decode --json capture.pcap
  softhca decode - < capture.pcap`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("decode needs one FILE, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDecode(cmd, args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per packet")
	return cmd
}

func runDecode(cmd *cobra.Command, name string, asJSON bool) (err error) {
	in := cmd.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("decode: %w", err)
		}
		defer f.Close()
		in = f
	}
	out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
	emit, last := decode.Text, io.Writer(out)
	if asJSON {
		emit, last = decode.JSON, cmd.ErrOrStderr()
	}
	sum, err := emit(in, out)
	_, lastErr := fmt.Fprintln(last, sum)
	if err := errors.Join(err, lastErr, out.Flush()); err != nil {
		return fmt.Errorf("decode %s: %w", name, err)
	}
	if bad := sum.Bad(); bad > 0 {
		return fmt.Errorf("decode %s: %d of %d RoCE packets are bad", name, bad, sum.RoCE)
	}
	return nil
}
