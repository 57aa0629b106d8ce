package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/softhca/softhca/cmd/softhca/internal/decode"
	"github.com/softhca/softhca/internal/explain"
	"github.com/softhca/softhca/internal/must"
)

// styles are the escape sequences that decode and explain print themselves.
var styles = regexp.MustCompile("\x1b\\[(0|1|2|31|32|33|36)m")

// leak returns the first character of an output that could control a terminal or forge a
// line, or "". Only a coloured output may have escape sequences.
func leak(out string, colored bool) string {
	if colored {
		out = styles.ReplaceAllString(out, "")
	}
	for i, r := range out {
		if r != '\n' && r != '\t' && (r == utf8.RuneError || !unicode.IsPrint(r)) {
			return fmt.Sprintf("%q in %q", r, out[max(0, i-40):min(len(out), i+40)])
		}
	}
	return ""
}

// leakIn returns the first such character in the strings of a JSON text: a reader decodes
// them, and may print them.
func leakIn(t *testing.T, text []byte) string {
	if found := leak(string(text), false); found != "" {
		return found
	}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if err == io.EOF {
			return ""
		}
		must.Do(t, err)
		if s, ok := token.(string); ok && strings.ContainsAny(s, "\n\t") || ok && leak(s, false) != "" {
			return fmt.Sprintf("%q", s)
		}
	}
}

// commented returns a capture with packets of another one, each with comments.
func commented(t *testing.T, capture []byte, comments ...string) []byte {
	t.Helper()
	from, err := pcapgo.NewReader(bytes.NewReader(capture))
	must.Do(t, err)
	var file bytes.Buffer
	to, err := pcapgo.NewNgWriter(&file, layers.LinkType(from.LinkType()))
	must.Do(t, err)
	for {
		data, info, err := from.ReadPacketData()
		if err != nil {
			break
		}
		info = gopacket.CaptureInfo{Timestamp: info.Timestamp, CaptureLength: len(data), Length: info.Length}
		must.Do(t, to.WritePacketWithOptions(info, data, pcapgo.NgPacketOptions{Comments: comments}))
	}
	must.Do(t, to.Flush())
	return file.Bytes()
}

// FuzzOutside has a capture, a comment in it and a file name that the fuzzer chooses: no
// output of explain and decode has a control character of them, whatever its form.
func FuzzOutside(f *testing.F) {
	for _, name := range []string{"cm_cmx_reject", "cm_udaddy_v6", "errs_bad_rkey_write"} {
		b, err := os.ReadFile(captures + name + ".pcap")
		must.Do(f, err)
		f.Add(b[:min(len(b), 4000)], "lost by rule 'x'\nVERDICT clean: \x1b[2J\u202e\u009b31m\x80\x7f", "a\x1b]0;b\a\n.pcap")
	}
	f.Fuzz(func(t *testing.T, capture []byte, comment, name string) {
		from, err := pcapgo.NewReader(bytes.NewReader(capture))
		if err != nil || from.Snaplen() > 1<<18 || len(capture) > 1<<16 || len(comment) > 1<<10 {
			return // no capture, or one that takes too long
		}
		comments := []string{comment, comment + " by rule '" + comment + "'"}
		file := commented(t, capture, comments...)
		report, readErr := explain.Read(bytes.NewReader(file), explain.Config{Packets: 100})
		if report == nil {
			return
		}
		for form, write := range map[string]func(io.Writer) error{
			"text":    func(w io.Writer) error { return report.Text(w, explain.TextOptions{All: true}) },
			"colored": func(w io.Writer) error { return report.Text(w, explain.TextOptions{All: true, Colors: true}) },
			"JSON":    report.JSON,
			"page":    func(w io.Writer) error { return Write(w, report, name) },
			"decoded": func(w io.Writer) error {
				_, err := decode.Text(bytes.NewReader(file), w, decode.Options{Payload: true})
				return err
			},
			"decoded, colored": func(w io.Writer) error {
				_, err := decode.Text(bytes.NewReader(file), w, decode.Options{Payload: true, Colors: true})
				return err
			},
			"decoded, JSON": func(w io.Writer) error {
				_, err := decode.JSON(bytes.NewReader(file), w, decode.Options{Payload: true})
				return err
			},
		} {
			var out bytes.Buffer
			if err := write(&out); err != nil && readErr == nil {
				t.Fatalf("%s: %v", form, err)
			}
			found := leak(out.String(), strings.HasSuffix(form, "colored"))
			if found == "" && strings.HasSuffix(form, "JSON") {
				found = leakIn(t, out.Bytes())
			}
			if found != "" {
				t.Errorf("%s: %s", form, found)
			}
		}
		if readErr != nil {
			return
		}
		data, err := json.Marshal(&collect(report).tables)
		must.Do(t, err)
		if found := leakIn(t, data); found != "" {
			t.Errorf("the data of the page's script: %s", found)
		}
	})
}
