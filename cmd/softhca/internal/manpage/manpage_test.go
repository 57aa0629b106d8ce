package manpage

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/internal/must"
)

// TestWrite writes a page on which each thing has its place, and where no text
// is taken for a request.
func TestWrite(t *testing.T) {
	root := &cobra.Command{Use: "ship", Short: "A ship"}
	cmd := &cobra.Command{
		Use: "sail PORT", Short: "Go to a port", Run: func(*cobra.Command, []string) {},
		Long:    "sail goes to a PORT.\n.so /etc/passwd is no request.\n\n  \\fast 3     with 3 sails\n  'x",
		Example: "  ship sail a   over there",
	}
	cmd.Flags().IntP("knots", "k", 7, "speed in `knots`")
	cmd.Flags().Bool("secret", false, "not shown")
	must.Do(t, cmd.Flags().MarkHidden("secret"))
	root.PersistentFlags().String("flag", "", "what it flies")
	root.AddCommand(cmd)
	var b strings.Builder
	must.Do(t, Write(&b, cmd))
	want := `.TH "SHIP\-SAIL" 1 "" "ship"
.SH NAME
ship\-sail \- Go to a port
.SH SYNOPSIS
.nh
.B ship sail PORT [flags]
.hy
.SH DESCRIPTION
sail goes to a PORT.
\&.so /etc/passwd is no request.
.PP
.TP
.B \efast 3
with 3 sails
.TP
.B \&'x
.SH OPTIONS
.TP
\fB\-k\fR, \fB\-\-knots\fR \fIknots\fR
speed in knots
(default 7)
.SH OPTIONS OF ADAPTERS
.TP
\fB\-\-flag\fR \fIstring\fR
what it flies
.SH EXAMPLES
.TP
.B ship sail a
over there
.SH EXIT STATUS
0 is success, 1 failure, 2 a wrong command line, where DESCRIPTION says nothing else.
.SH SEE ALSO
\fBship\fR(1)
`
	if b.String() != want {
		t.Errorf("the page is\n%s\nwant\n%s", &b, want)
	}
}

// full is a disk without room.
type full struct{}

var errFull = errors.New("no room")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteFails(t *testing.T) {
	must.Fail(t, Write(full{}, &cobra.Command{Use: "ship"}), errFull, "a page that cannot be written")
}
