package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/softhca/softhca/ib"
	checks "github.com/softhca/softhca/internal/check"
	"github.com/softhca/softhca/internal/explore"
	"github.com/softhca/softhca/internal/explore/stacks"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// jsonPage is what docs/json.md says.
type jsonPage struct {
	objects  map[string]map[string]string // types of fields, by the names of objects and fields
	commands map[string]string            // the object that a command prints
	used     map[string]bool              // objects and fields that were printed
}

// The forms of lines of the page.
var (
	jsonCommand = regexp.MustCompile("^## (softhca .*)$")
	jsonPrints  = regexp.MustCompile(`^(?:One|An) .*\[([^]]*)\]\(#`)
	jsonObject  = regexp.MustCompile("^### (.*)$")
	jsonField   = regexp.MustCompile("^\\| `([^`]*)` \\| ([^|]*) \\|")
	jsonLink    = regexp.MustCompile(`\[([^]]*)\]\(#[a-z]*\)`)
)

// readJSONPage reads the page.
func readJSONPage(t *testing.T) *jsonPage {
	t.Helper()
	b, err := os.ReadFile("../../docs/json.md")
	must.Do(t, err)
	p := &jsonPage{map[string]map[string]string{}, map[string]string{}, map[string]bool{}}
	command, object := "", ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if m := jsonCommand.FindStringSubmatch(line); m != nil {
			command, object = m[1], ""
		} else if m := jsonPrints.FindStringSubmatch(line); m != nil && object == "" {
			p.commands[command] = m[1]
		} else if m := jsonObject.FindStringSubmatch(line); m != nil {
			object = m[1]
			p.objects[object] = map[string]string{}
		} else if m := jsonField.FindStringSubmatch(line); m != nil {
			p.objects[object][m[1]] = jsonLink.ReplaceAllString(strings.TrimSpace(m[2]), "$1")
		}
	}
	return p
}

// check compares what was printed with what the page says of a command: every value.
func (p *jsonPage) check(command, printed string) error {
	object := p.commands[command]
	if p.objects[object] == nil {
		return fmt.Errorf("docs/json.md does not say what %q prints", command)
	}
	d := json.NewDecoder(strings.NewReader(printed))
	d.UseNumber()
	n := 0
	for {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("%s: %w in %.200s", command, err, printed)
		}
		all, isArray := v.([]any)
		if !isArray {
			all = []any{v}
		}
		for _, one := range all {
			n++
			if err := p.value(object, one, object); err != nil {
				return fmt.Errorf("%s: %w", command, err)
			}
		}
	}
	if n == 0 {
		return fmt.Errorf("%s prints nothing", command)
	}
	return nil
}

// value compares a value with its type.
func (p *jsonPage) value(typ string, v any, where string) error {
	typ, optional, _ := strings.Cut(typ, ", or ")
	if v == nil && optional == "null" {
		return nil
	}
	ok := false
	switch v := v.(type) {
	case string:
		ok = typ == "string"
	case bool:
		ok = typ == "boolean"
	case json.Number:
		ok = typ == "number" || typ == "integer" && !strings.ContainsAny(v.String(), ".eE")
	case []any:
		element, is := strings.CutPrefix(typ, "array of ")
		for i, one := range v {
			if err := p.value(element, one, fmt.Sprintf("%s[%d]", where, i)); err != nil && is {
				return err
			}
		}
		ok = is
	case map[string]any:
		if element, is := strings.CutPrefix(typ, "object by name of "); is {
			for name, one := range v {
				if err := p.value(element, one, where+"."+name); err != nil {
					return err
				}
			}
			return nil
		}
		return p.object(typ, v, where)
	}
	if !ok {
		return fmt.Errorf("%s is %v, which is not %s", where, v, typ)
	}
	return nil
}

// object compares an object with its table.
func (p *jsonPage) object(name string, v map[string]any, where string) error {
	fields := p.objects[name]
	if fields == nil {
		return fmt.Errorf("%s is an object, not %s", where, name)
	}
	p.used[name] = true
	for field, typ := range fields {
		one, there := v[field]
		if !there && !strings.HasSuffix(typ, ", or missing") {
			return fmt.Errorf("%s has no %s", where, field)
		}
		if !there {
			continue
		}
		p.used[name+"."+field] = true
		if err := p.value(typ, one, where+"."+field); err != nil {
			return err
		}
	}
	for field := range v {
		if fields[field] == "" {
			return fmt.Errorf("%s has %s, which docs/json.md does not name", where, field)
		}
	}
	return nil
}

// everyMessage returns a capture with each message of the connection manager.
func everyMessage(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "messages.pcap")
	var b bytes.Buffer
	w := pcapgo.NewWriterNanos(&b)
	must.Do(t, w.WriteFileHeader(1<<16, layers.LinkTypeRaw))
	h := ipudp.Header{Src: netip.MustParseAddr("10.77.0.3"), Dst: netip.MustParseAddr("10.77.0.2"), SrcPort: 0xc123, DstPort: roce.Port}
	for attr := mad.AttrREQ; attr <= mad.AttrAPR; attr++ {
		m := mad.MAD(bytes.Repeat([]byte{0x11}, mad.Size)) // nothing is zero, so nothing is left out
		m.PutHeader(mad.CMHeader(attr, 1))
		p := roce.Packet{BTH: roce.BTH{Opcode: roce.UDSendOnly, DestQP: ib.QPNGSI}, Payload: m[:]}
		seg := make([]byte, roce.Size(p.BTH.Opcode, len(m)))
		p.Build(seg)
		var head [ipudp.MaxLen]byte
		n := h.Put(head[:], len(seg))
		sum, _ := roce.HeaderICRC(head[:n-ipudp.UDPLen], head[n-ipudp.UDPLen:n], seg)
		binary.LittleEndian.PutUint32(seg[len(seg)-roce.ICRCLen:], sum)
		data := append(bytes.Clone(head[:n]), seg...)
		must.Do(t, w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(data), Length: len(data)}, data))
	}
	must.Do(t, os.WriteFile(name, b.Bytes(), 0o644))
	return name
}

// everyEntry makes a capture in which adapters say something of each sort.
func everyEntry(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "entries.pcapng")
	var b bytes.Buffer
	w, err := pcapfile.NewWriter(&b)
	must.Do(t, err)
	say := func(text ...string) {
		e := pcapfile.Entry{Time: time.Unix(1_700_000_000, 0), Fields: []pcapfile.Field{{Name: "ADAPTER", Value: "10.0.0.1"}}}
		for i := 0; i < len(text); i += 2 {
			e.Fields = append(e.Fields, pcapfile.Field{Name: text[i], Value: text[i+1]})
		}
		must.Do(t, w.Write(&pcapfile.Item{Entry: &e}))
	}
	say("MSG", "state changed", "EEC", "0x000012", "TO", "ERR")
	say("MSG", "retries exhausted", "EEC", "0x000012", "STATUS", "RETRY_EXC_ERR", "WR_ID", "1")
	for n := range 20 {
		say("MSG", "memory error", "QP", "0x000011", "CAUSE", fmt.Sprint(n))
	}
	must.Do(t, w.Flush())
	must.Do(t, os.WriteFile(name, b.Bytes(), 0o644))
	return name
}

// checkCaptures checks what is printed of captures.
func checkCaptures(t *testing.T, check func(command, printed string)) {
	t.Helper()
	files, err := filepath.Glob(captures + "*.pcap")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	for _, file := range append(files, everyMessage(t), everyEntry(t)) {
		_, out, _ := command(t, "explain", "--json", file)
		check("softhca explain --json FILE", out)
		if _, out, _ = command(t, "decode", "--json", "-x", file); out != "" {
			check("softhca decode --json FILE", out)
		}
	}
	checkClocks(t, check)
}

// checkClocks checks the report of captures of both ends with different clocks.
func checkClocks(t *testing.T, check func(command, printed string)) {
	t.Helper()
	_, out, _ := command(t, "explain", "--json", captures+"loss_ack.client.pcap", ahead(t, "loss_ack.server.pcap", time.Minute))
	if !strings.Contains(out, `"clocks"`) {
		t.Errorf("no clocks: %s", out)
	}
	check("softhca explain --json FILE", out)
}

// checkReports checks the reports of judges.
func checkReports(t *testing.T, check func(command, printed string)) {
	t.Helper()
	for _, name := range []string{"rxe-6.1", "rxe-6.12"} { // a judge needs an adapter that is not ours; these are what it wrote
		b, err := os.ReadFile("../../docs/peers/" + name + ".json")
		must.Do(t, err)
		check("softhca judge --json REPORT", string(b))
	}
}

// TestJSON compares what each command prints as JSON with docs/json.md: each field is
// there, of the type that the page says, and none that it does not name.
func TestJSON(t *testing.T) {
	p := readJSONPage(t)
	said := map[string]bool{}
	check := func(command, printed string) {
		t.Helper()
		said[command] = true
		if err := p.check(command, printed); err != nil {
			t.Error(err)
		}
	}
	checkCaptures(t, check)
	const addr = 100
	rd := filepath.Join(t.TempDir(), "rd.pcapng")
	sampleTables(t)
	perf := []string{"perf", "write", "--json", "--local", "--duration", "100ms", "--addr", loopback(addr)}
	for _, c := range []struct {
		says string
		args []string
	}{
		{"softhca perf OPERATION --json", append(perf, "--fault", "drop nth=3")},
		{"softhca perf OPERATION --json", append(perf, "--type", "rd", "--capture", rd)},
		{"softhca decode --json FILE", []string{"decode", "--json", rd}},
		{"softhca perf OPERATION --json", append(perf, "--type", "uc")},
		{"softhca perf OPERATION --json", append(perf, "--alt", loopback(addr+10))},
		{"softhca perf OPERATION --json, when the connection fails", append(perf, "--fault", "drop p=1 dir=out", "--timeout", "5ms", "--retry", "1", "--duration", "10s")},
		{"softhca perf OPERATION --json --local --loss-ratio SHARE", append(perf, "--loss-ratio", "0.01")},
		{"softhca perf cm --json", []string{"perf", "cm", "--local", "--json", "--connections", "8", "--cycles", "12", "--window", "2", "--addr", loopback(addr + 4)}},
		{"softhca sim --json", []string{"sim", "--json", "--seeds", "1..2"}},
		{"softhca sim --json", []string{"sim", "--json", "--seeds", "1..2", "--profile", "connect"}},
		{"softhca sim --json --loss-ratio SHARE", []string{"sim", "--json", "--loss-ratio", "0.01"}},
		{"softhca play --json SCRIPT", []string{"play", "--json", "e15_send_too_long"}},
		{"softhca play --json SCRIPT", []string{"play", "--json", "--list"}},
		{"softhca states --json", []string{"states", "--format", "json"}},
		{"softhca states --json", []string{"states", "--json"}},
		{"softhca cm-states --json", []string{"cm-states", "--format", "json"}},
		{"softhca cm-states --json", []string{"cm-states", "--json"}},
		{"softhca judge --list --json FILE", []string{"judge", "--list", "--json", "-"}},
		{"softhca demo --json", []string{"demo", "--json", "--measure", "10ms", "--addr", loopback(addr + 20), "--peer", loopback(addr + 21)}},
		{"softhca demo --json", []string{"demo", "--json", "--type", "rd", "--addr", loopback(addr + 20), "--peer", loopback(addr + 21)}},
		{"softhca faults --json --list", []string{"faults", "--json", "--list"}},
		{"softhca faults --json --nasty", []string{"faults", "--json", "--nasty"}},
		{"softhca faults --json RULE", []string{"faults", "--json", "drop nth=3"}},
		{"softhca devices --json", []string{"devices", "--json", "--addr", loopback(addr + 8)}},
		{"softhca devices --json", []string{"devices", "--json", "--addr", "192.0.2.1"}},
		{"softhca top --once --json", []string{"top", "--once", "--json", "--interval", "60ms"}},
		{"softhca version --json", []string{"version", "--json"}},
	} {
		_, out, errs := command(t, c.args...)
		if check(c.says, out); t.Failed() {
			t.Fatalf("%s: %s", strings.Join(c.args, " "), errs)
		}
	}
	checkReports(t, check)
	checkFiles(t, check)
	for _, c := range slices.Sorted(maps.Keys(p.commands)) {
		if !said[c] {
			t.Errorf("nothing shows what %s prints", c)
		}
	}
	for _, object := range slices.Sorted(maps.Keys(p.objects)) {
		// What no capture here has, a failed simulation, and processes that share an address.
		if seldom := []string{"decode.XRCETH", "decode.FETH", "simFailure", "devices.Share", "devices.Near", "broker.Member"}; !p.used[object] && !slices.Contains(seldom, object) {
			t.Errorf("no command printed a %s", object)
		}
	}
}

// checkFiles checks what run --check and explore write.
func checkFiles(t *testing.T, check func(says, out string)) {
	t.Helper()
	findings, err := checks.Read("../../internal/check/testdata/records", checks.Options{Advice: true})
	must.Do(t, err)
	var printed strings.Builder
	must.Do(t, findings.JSON(&printed))
	check("softhca run --check --report FILE.json", printed.String())
	explored := explore.Report{Version: explore.Version, Program: []string{"sh"}, Processes: []string{"sh.1"}, Counts: map[explore.Verdict]int{explore.Hung: 1}}
	explored.Results = []explore.Result{{Fault: explore.Fault{Process: "sh.1"}, Verdict: explore.Hung, Why: "why", Output: "text"}, {}}
	thread := stacks.Thread{TID: 1, Name: "sh", Count: 1, Inside: true, State: "sleeping", Cut: true, Frames: []checks.Frame{{Function: "f"}}}
	explored.Results[0].Stacks = []stacks.Process{{PID: 1, Name: "sh", Problem: "none", Threads: []stacks.Thread{thread}, Engine: 1, More: 1, QueuePairs: []string{"qp"}, Goroutines: "none"}}
	explored.Compare(&explore.Report{}, "old.json")
	printed.Reset()
	must.Do(t, explored.JSON(&printed))
	check("softhca explore --json FILE", printed.String())
	printed.Reset()
	must.Do(t, writeFaults(&printed, []explore.Fault{explored.Results[0].Fault}))
	check("softhca explore --list --json FILE", printed.String())
}

// TestJSONPageNamesAllCommands looks for commands that can print JSON.
func TestJSONPageNamesAllCommands(t *testing.T) {
	p := readJSONPage(t)
	for _, c := range commands(newRootCommand()) {
		format := c.Flags().Lookup("format")
		can := c.Flags().Lookup("json") != nil || c.Flags().Lookup("report") != nil || format != nil && strings.Contains(format.Usage, "json")
		told := slices.ContainsFunc(slices.Collect(maps.Keys(p.commands)), func(s string) bool {
			return strings.HasPrefix(s+" ", c.CommandPath()+" ")
		})
		if can != told && c.HasParent() {
			t.Errorf("%s: prints JSON: %v; docs/json.md: %v", c.CommandPath(), can, told)
		}
	}
}

// TestJSONPageIsNotPatient shows what TestJSON must notice.
func TestJSONPageIsNotPatient(t *testing.T) {
	p := readJSONPage(t)
	const command = "softhca version --json"
	good := `{"version":"v1","go":"go1","platform":"p"}`
	if err := p.check(command, good); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{
		``, `{`, `[1]`, `{"version":"v1","go":"go1"}`, `{"version":1,"go":"go1","platform":"p"}`, `{"version":null,"go":"go1","platform":"p"}`,
		`{"version":"v1","go":"go1","platform":"p","new":1}`, `{"version":"v1","go":"go1","platform":"p","modified":"yes"}`, `{"version":["v1"],"go":"go1","platform":"p"}`,
	} {
		if err := p.check(command, bad); err == nil {
			t.Errorf("%s passes", bad)
		}
	}
	if err := p.check("softhca perf OPERATION --json, when the connection fails", `{"qpn":"0x11"}`); err == nil {
		t.Error("a QPN that is a string passes")
	}
}

// TestJSONOfWhatFails prints what was verified of a demonstration that was not, and the list of
// scripts into a file.
func TestJSONOfWhatFails(t *testing.T) {
	p := readJSONPage(t)
	code, out, errs := command(t, "demo", "--json", "--measure", "0", "--addr", loopback(120), "--peer", loopback(121), "--fault", "corrupt nth=1 op=SEND dir=out")
	if err := p.check("softhca demo --json", out); err != nil || code != exitFailed || !strings.Contains(out, `"verified":false`) || !strings.Contains(out, `"holds":false`) {
		t.Errorf("%v, exit code %d, %s\n%s", err, code, out, errs)
	}
	code, out, _ = command(t, "demo", "--json", "--addr", loopback(120), "--peer", "192.0.2.99")
	if code != exitFailed || out != "" {
		t.Errorf("without an adapter: exit code %d, %q", code, out)
	}
	name := filepath.Join(t.TempDir(), "list.json")
	code, out, errs = command(t, "judge", "--list", "--run", "e08", "--json", name)
	b, err := os.ReadFile(name)
	if err = errors.Join(err, p.check("softhca judge --list --json FILE", string(b))); err != nil || code != exitOK || out != "" {
		t.Errorf("%v, exit code %d, %q, %s", err, code, out, errs)
	}
	code, _, errs = command(t, "judge", "--list", "--json", "/no/such/list.json")
	if code != exitFailed || !strings.Contains(errs, "--json /no/such/list.json: no such file or directory") {
		t.Errorf("a file that cannot be written: exit code %d, %s", code, errs)
	}
	if code, _, errs := command(t, "states", "--json", "--format", "dot"); code != exitUsage || !strings.Contains(errs, "--format and --json exclude each other") {
		t.Errorf("two formats: exit code %d, %s", code, errs)
	}
}
