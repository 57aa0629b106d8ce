package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/page"
	"github.com/softhca/softhca/cmd/softhca/internal/sniff"
	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/explain"
)

func newExplainCommand() *cobra.Command {
	x := &explaining{}
	cmd := &cobra.Command{
		Use:   "explain {FILE... | --live INTERFACE}",
		Short: "Explain what went wrong in a capture file, and why",
		Long: `explain follows the RoCEv2 connections of a pcap or pcapng file, also compressed with gzip, and reports what happened:
first the verdict and a summary (what failed, on which side to look, which status the programs got, what to try), then
the conversations, the findings, and the packets around the finding that explains the verdict. The lists have 10 entries
each; --all prints all of them. FILE may be - for standard input. The report is colored on terminals, unless NO_COLOR is
set. Several files, such as captures of both ends of a connection, are explained as one, in the order of time.
Packets that are in two files show how their clocks differ; explain corrects the times, and says so.

Captures by softhca also contain what its adapters say: the statuses that the programs got, why exactly a request was
refused or a packet dropped, failed calls, and errors that sent no packet.

With --live, explain follows the packets of a network interface (Linux, CAP_NET_RAW) until Ctrl-C, and then prints the
report; it reports failed connections at once. With --explain, any command follows its own adapter's packets; no
privilege needed. On Linux, programs of one user on one host exchange packets through shared memory, which passes no
interface, so --live and tcpdump do not see them: start both programs with --wire=udp, or SOFTHCA_WIRE=udp, or with
--explain, which sees all packets.

A packet that is merely missing from the capture does not count as lost: the lines "not shown" say what the capture does
not contain. explain reads the file once, and needs memory only for open connections. docs/explain.md
describes every finding, docs/json.md the output of --json.

--html writes a page that needs no network access: a ladder of the packets to scroll, filter and search, their PSNs and
the throughput over time, the messages, every packet's fields and the states of both queue pairs. The page has at most
100,000 packets; for a larger capture, those around the cause of the verdict.

The exit code gives the verdict:

  0  clean or repaired: every request in the capture was answered
  1  failed or lost: a program got an error, or a message was lost
  2  wrong command line, unreadable capture (the part before the damage is explained), or
     unwritable report
  3  unknown or empty: the capture does not show the outcome of all requests, or has no
     RoCEv2 packet

With --expect it is 0 if the report has the expected outcome, and otherwise 1. With --require-packets it is 1 if there is
no packet.`,
		Example: `  softhca explain capture.pcapng
  softhca explain client.pcapng server.pcapng                     both ends
  softhca explain --expect REM_ACCESS_ERR capture.pcapng          in a test
  softhca explain --json capture.pcap.gz
  softhca explain --html page.html capture.pcapng
  softhca explain --live eth0                as root, until Ctrl-C
  softhca explain --live lo                  the same for programs of this host, started with --wire=udp
  softhca explain -                          standard input, as from tcpdump -w - udp port 4791`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case x.live == "" && len(args) == 0:
				return usagef("explain needs a FILE, or --live INTERFACE")
			case x.live != "" && len(args) > 0:
				return usagef("explain --live takes no FILE")
			case len(args) > 1 && slices.Contains(args, "-"):
				return usagef("explain: standard input (-) cannot be one of several files")
			case x.live != "" && x.page != "":
				return usagef("--html needs a FILE; write one with tcpdump")
			}
			return x.want.check()
		},
		RunE: x.execute,
	}
	x.flags(cmd)
	return cmd
}

// explaining is a run of explain.
type explaining struct {
	asJSON bool
	all    bool
	page   string // the file of the page; "" for none
	live   string // the interface to follow instead of a file
	want   expected
}

// execute runs the command.
func (x *explaining) execute(cmd *cobra.Command, args []string) error {
	switch {
	case x.page == "-":
		return usagef("--html -: want the name of a file to write")
	case x.live != "":
		return x.hear(cmd)
	default:
		return x.run(cmd, args)
	}
}

// flags adds the options to the command.
func (x *explaining) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&x.live, "live", "", "follow the packets of this network `interface`, until Ctrl-C")
	cmd.Flags().BoolVar(&x.asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&x.all, "all", false, "list all conversations and findings, not only 10 of each")
	x.want.flags(cmd)
	cmd.Flags().StringVar(&x.page, "html", "", "also write an HTML page to this `file.html`")
}

// run explains one capture, or several as one.
func (x *explaining) run(cmd *cobra.Command, names []string) error {
	told := strings.Join(names, ", ")
	if len(names) == 1 && names[0] == "-" && x.page == "" {
		report, err := explainStream(cmd.InOrStdin(), explain.Config{})
		return x.tell(cmd, told, report, err)
	}
	files := make([]*os.File, len(names))
	for i, name := range names {
		f, done, err := openAgain(cmd.InOrStdin(), name, x.page != "" || len(names) > 1)
		if err != nil {
			return unreadable(fmt.Errorf("explain: %w", err))
		}
		defer done()
		files[i] = f
	}
	config := explain.Config{}
	if x.page != "" {
		config = explain.Config{Packets: page.MaxPackets, Messages: page.MaxMessages}
	}
	report, err := explainFiles(names, files, config)
	if x.page != "" && report != nil && report.Packets > page.MaxPackets && report.Notable() > 0 {
		for _, f := range files {
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return unreadable(fmt.Errorf("explain %s: read it again: %w", f.Name(), err))
			}
		}
		config.Around, report = report.Notable(), nil // the packets of the first report are no longer needed
		report, err = explainFiles(names, files, config)
	}
	return x.tell(cmd, told, report, err)
}

// hear follows the packets of an interface until the command is interrupted.
func (x *explaining) hear(cmd *cobra.Command) error {
	s, err := sniff.Open(x.live)
	if err != nil {
		return unreadable(fmt.Errorf("explain --live: %w", err))
	}
	say(cmd.ErrOrStderr(), "following interface %s until Ctrl-C", x.live)
	l := explainLive(&newsroom{w: cmd.ErrOrStderr()})
	stop := countPairs(device.NearPairs)
	b := bufio.NewWriterSize(l, 1<<16)
	w := pcapgo.NewWriterNanos(b)
	if err = w.WriteFileHeader(1<<16, layers.LinkTypeRaw); err == nil {
		err = s.Listen(cmd.Context(), func(ip []byte, at time.Time) error {
			return w.WritePacket(gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(ip), Length: len(ip)}, ip)
		})
	}
	unseen := stop()
	err = errors.Join(err, b.Flush())
	missed, closeErr := s.Close()
	report := l.end()
	if err = errors.Join(err, closeErr); err != nil {
		return unreadable(fmt.Errorf("explain --live: %w", err))
	}
	if missed > 0 {
		say(cmd.ErrOrStderr(), "%d packets were missed: they came faster than explain could follow", missed)
	}
	if unseen > 0 {
		say(cmd.ErrOrStderr(), "not shown: %s of processes on this host exchanged packets through shared memory, which no interface sees; to follow them, start both programs with --wire udp "+
			"or SOFTHCA_WIRE=udp, or use --explain or --capture with them", text.Count(unseen, "pair", "pairs"))
	}
	return x.tell(cmd, "--live "+x.live, report, nil)
}

// openAgain opens a file, or standard input. If it is read more than once (again) and
// is no regular file, openAgain opens a copy. The caller calls done once.
func openAgain(stdin io.Reader, name string, again bool) (f *os.File, done func(), err error) {
	if name == "-" {
		return copied(stdin, "standard input")
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = file.Close() }
	if info, err := file.Stat(); !again || err == nil && info.Mode().IsRegular() {
		return file, done, nil
	}
	defer done()
	return copied(file, name)
}

// copied opens a copy of what cannot be read twice, such as a pipe. The caller calls done once.
func copied(in io.Reader, name string) (f *os.File, done func(), err error) {
	if f, err = os.CreateTemp("", "softhca-explain-*"); err != nil {
		return nil, nil, err
	}
	done = func() {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
	if _, err = io.Copy(f, in); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("copy %s: %w", name, err)
	}
	return f, done, nil
}

// explainFiles reads captures that may be compressed. names has the file names as the user typed them.
func explainFiles(names []string, files []*os.File, c explain.Config) (*explain.Report, error) {
	if len(files) == 1 {
		return explainStream(files[0], c)
	}
	captures := make([]explain.Capture, len(files))
	for i, f := range files {
		captures[i] = explain.Capture{Name: names[i], Open: func() (io.Reader, error) {
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return nil, fmt.Errorf("read it again: %w", err)
			}
			return unzipped(f)
		}}
	}
	return explain.ReadAll(captures, c)
}

// explainStream reads a capture that may be compressed.
func explainStream(in io.Reader, c explain.Config) (*explain.Report, error) {
	in, err := unzipped(in)
	if err != nil {
		return nil, err
	}
	return explain.Read(in, c)
}

// exitUntold is the exit code if the capture does not show the outcome of the requests.
const exitUntold = 3

// unreadable returns an error about a capture that cannot be read, with its exit code.
func unreadable(err error) error { return &exitError{exitUsage, err} }

// tell prints a report, and writes its page. readErr is the error that stopped the
// reading before the end of the file.
func (x *explaining) tell(cmd *cobra.Command, name string, report *explain.Report, readErr error) error {
	if report == nil {
		return unreadable(fmt.Errorf("explain %s: %w", name, readErr))
	}
	out := cmd.OutOrStdout()
	var err error
	if x.asJSON {
		err = report.JSON(out)
	} else {
		err = report.Text(out, explain.TextOptions{Colors: colored(out), All: x.all, More: "--all shows them"})
	}
	if err == nil && x.page != "" {
		err = x.writePage(report, name)
	}
	switch {
	case err != nil:
		return &exitError{exitUsage, fmt.Errorf("explain %s: %w", name, err)}
	case readErr != nil:
		return unreadable(fmt.Errorf("explain %s: the file is damaged: %w", name, readErr))
	}
	if err := x.want.met(report); err != nil {
		return fmt.Errorf("explain %s: %w", name, err)
	}
	switch {
	case x.want.outcome != "": // the caller knows what is wrong
	case report.Verdict.Bad():
		return fmt.Errorf("explain %s: %s", name, report.Verdict.Headline)
	case !report.Verdict.Told():
		return &exitError{exitUntold, fmt.Errorf("explain %s: %s", name, report.Verdict.Headline)}
	}
	return nil
}

// writePage writes the page of a report.
func (x *explaining) writePage(report *explain.Report, name string) error {
	f, err := os.Create(x.page)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, 1<<16)
	return errors.Join(page.Write(b, report, filepath.Base(name)), b.Flush(), f.Close())
}

// unzipped returns the content of a file that may be compressed. It decompresses
// while the caller reads, so the size does not matter.
func unzipped(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if magic, err := b.Peek(2); err != nil || !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return b, nil // the next reader reports a file that is too short
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
	return ok && isTerminal(f) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
