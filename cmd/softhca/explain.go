package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/internal/explain"
)

func newExplainCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "explain FILE",
		Short: "Say what went wrong in a capture file, and why",
		Long: `explain follows the RoCEv2 connections of a pcap or pcapng file, also compressed with gzip, and says what happened:
the verdict first (what broke, on which side to look, which status the programs have seen, what to try), then the
conversations, the findings, and the packets around what explains the verdict. FILE may be - for standard input.

What a capture does not show is not called lost: the lines "not shown" say what it cannot tell. The file is read once,
and memory is needed for the connections that are alive only. Every finding is described in docs/explain.md, and so
is what --json prints.

The exit code is 1 if a program saw an error or a message was lost, or if the file is damaged; what comes before the
damage is explained.`,
		Example: `  softhca explain capture.pcapng
  softhca explain --json capture.pcap.gz
  softhca explain -                          of standard input, as from tcpdump -w - udp port 4791`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("explain needs one FILE, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runExplain(cmd, args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func runExplain(cmd *cobra.Command, name string, asJSON bool) error {
	in := cmd.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("explain: %w", err)
		}
		defer f.Close()
		in = f
	}
	in, err := unzipped(in)
	if err != nil {
		return fmt.Errorf("explain %s: %w", name, err)
	}
	report, readErr := explain.Read(in, explain.Config{})
	if report == nil {
		return fmt.Errorf("explain %s: %w", name, readErr)
	}
	out := cmd.OutOrStdout()
	if asJSON {
		err = report.JSON(out)
	} else {
		err = report.Text(out, colored(out))
	}
	switch {
	case err != nil:
		return fmt.Errorf("explain %s: %w", name, err)
	case readErr != nil:
		return fmt.Errorf("explain %s: the file is damaged: %w", name, readErr)
	case report.Verdict.Bad():
		return fmt.Errorf("explain %s: %s", name, report.Verdict.Headline)
	}
	return nil
}

// unzipped returns what a file holds that may be compressed. It is read as it is
// needed: how much that is in all does not matter.
func unzipped(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if magic, err := b.Peek(2); err != nil || !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return b, nil // what is wrong with a short file the next reader says
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return z, nil
}

// colored reports whether w is a terminal whose user wants colors.
func colored(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && terminalColumns(f) > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
