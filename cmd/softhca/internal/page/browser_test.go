package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/decode"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/explain"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

const captures = "../../../../internal/testdata/captures/"

// reported reads a capture of Linux.
func reported(t *testing.T, capture string) *explain.Report {
	t.Helper()
	f, err := os.Open(captures + capture + ".pcap")
	must.Do(t, err)
	defer f.Close()
	r, err := explain.Read(f, explain.Config{Packets: MaxPackets, Messages: MaxMessages})
	must.Do(t, err)
	return r
}

// written writes the page of a report, and returns the name of the file.
func written(t *testing.T, r *explain.Report, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	f, err := os.Create(file)
	must.Do(t, err)
	must.Do(t, Write(f, r, name))
	must.Do(t, f.Close())
	return file
}

// quiet fails if the page had an error, or fetched anything but itself.
func (b *chromium) quiet() {
	b.t.Helper()
	for _, e := range b.errors {
		b.t.Errorf("in the page: %s", e)
	}
	for _, url := range b.fetched {
		if !strings.HasPrefix(url, "file://") || !strings.HasSuffix(url, "/page.html") {
			b.t.Errorf("the page fetches %s", url)
		}
	}
}

// text returns the text of the first element of a selector.
func (b *chromium) text(selector string) string {
	b.t.Helper()
	return fmt.Sprint(b.eval(fmt.Sprintf(`document.querySelector(%q)?.innerText ?? "there is no such element"`, selector)))
}

// number returns the value of an expression.
func (b *chromium) number(expression string) int {
	b.t.Helper()
	v, ok := b.eval(expression).(float64)
	if !ok {
		b.t.Fatalf("%s is no number", expression)
	}
	return int(v)
}

// want fails unless the text of an element has all words.
func (b *chromium) want(selector string, words ...string) {
	b.t.Helper()
	text := b.text(selector)
	for _, w := range words {
		if !strings.Contains(text, w) {
			b.t.Errorf("%s lacks %q: %s", selector, w, text)
		}
	}
}

// TestPageInABrowser clicks through the page of a capture of Linux with losses.
func TestPageInABrowser(t *testing.T) {
	b := launch(t)
	b.screen(1366, 768, "light")
	b.open(written(t, reported(t, "netem_loss.client"), "netem_loss.client.pcap"))
	b.want("#verdict", "REPAIRED", "a request was lost", "network", "Look for drops")
	b.want("#details", "#13 RC_SEND_FIRST", "0x123455", "request-lost-upstream", "Destination QP", "sends again")
	b.want(".row.chosen", "13", "was missing")
	b.want("#count", "29 packets")

	b.click(`#findings button[data-rule="nak-lost"]`)
	b.want("#details h3", "#53 ")
	b.want("#conversations .chosen", "2")
	b.click(`#conversations button[data-conversation="1"]`)
	b.click(`.row[data-i="13"]`)
	b.want("#details h3", "#14 RC_SEND_LAST")
	b.want(".row.chosen.again", "14", "again")

	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": "ArrowDown"}, nil)
	b.want("#details h3", "#15 RC_ACKNOWLEDGE")
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": "n"}, nil)
	b.want("#details h3", "#17 RC_SEND_FIRST")

	b.write("#filter", "nak_sequence")
	b.want("#count", " of 29 packets")
	if n := b.number(`document.querySelectorAll("#ladder .row:not(.nak)").length`); n > 0 {
		t.Errorf("%d rows are no NAK, though only these are to be shown", n)
	}
	b.write("#filter", "-ack send_last")
	if n := b.number(`[...document.querySelectorAll("#ladder .words")].filter(e => !e.textContent.includes("SEND_LAST")).length`); n > 0 {
		t.Errorf("%d rows are no SEND_LAST", n)
	}
	b.write("#filter", "")
	b.write("#search", "0x123458")
	b.click("#next")
	b.want(".row.chosen.hit", "0x123458")
	b.click("#only")
	b.want("#count", " of 29 packets")
	b.click("#only")

	rows := b.number(`document.querySelectorAll("#ladder .row").length`)
	b.click("#smaller")
	b.click("#smaller")
	if n := b.number(`document.querySelectorAll("#ladder .row").length`); n <= rows {
		t.Errorf("with smaller rows %d are in sight, not more than %d", n, rows)
	}
	b.click(`#tabs button[data-tab="messages"]`)
	b.want("#messages", "SEND of", "acknowledged after", "again")
	b.click(`#messages .scroll .row:nth-child(4)`)
	b.want("#details h3", "RC_SEND")
	b.click(`#tabs button[data-tab="messages"]`)
	b.eval(`document.activeElement.blur()`)
	for _, key := range []string{"Home", "ArrowDown", "ArrowDown"} {
		b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": key}, nil)
	}
	third := b.eval(`document.querySelector("#messages .row.chosen").dataset.record`)
	if n := b.number(`[...document.querySelectorAll("#messages .scroll .row")].findIndex(e => e.classList.contains("chosen"))`); n != 2 {
		t.Errorf("Home and two arrows choose row %d", n)
	}
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": "Enter"}, nil)
	b.want("#details h3", fmt.Sprintf("#%v ", third))
	b.click("#fold")
	if b.number(`byId("why").clientHeight`) != 0 {
		t.Error("a click does not fold the reasons")
	}
	b.quiet()
}

// TestLinksInABrowser looks where the pages of the documentation are linked: such links
// work wherever the file is.
func TestLinksInABrowser(t *testing.T) {
	b := launch(t)
	b.screen(1366, 768, "light")
	b.open(written(t, reported(t, "errs_bad_rkey_write"), "errs_bad_rkey_write.pcap"))
	const site = "https://github.com/softhca/softhca/blob/main/docs/"
	want := site + "explain.md#write-refused " + site + "statuses.md#rem_access_err"
	for _, in := range []string{"#links", "#details .pages"} {
		if got := b.eval(`[...document.querySelectorAll("` + in + ` a")].map(a => a.href).join(" ")`); got != want {
			t.Errorf("%s: links to %v, want %s", in, got, want)
		}
	}
	b.quiet()
}

// TestControlsHaveRoom shows that the bar over the lists has room for typed text on the
// screen of a laptop.
func TestControlsHaveRoom(t *testing.T) {
	b := launch(t)
	b.screen(1366, 768, "light")
	r := reported(t, "netem_loss.client")
	r.UnlistedMessages = 123456 // which takes room
	b.open(written(t, r, "netem_loss.client.pcap"))
	for _, id := range []string{"filter", "search"} {
		if n := b.number(`byId("` + id + `").clientWidth`); n < 95 {
			t.Errorf("packets: %s is %d pixels wide", id, n)
		}
	}
	if n := b.number(`byId("packets").querySelector(".bar").clientHeight`); n > 40 {
		t.Errorf("the bar is %d pixels high: it takes two lines", n)
	}
	b.click(`#tabs button[data-tab="messages"]`)
	if n := b.number(`byId("filter").clientWidth`); n < 95 {
		t.Errorf("messages: the filter is %d pixels wide", n)
	}
	if n := b.number(`document.documentElement.scrollWidth - innerWidth`); n > 0 {
		t.Errorf("the page is %d pixels wider than the screen", n)
	}
	b.quiet()
}

// TestPlotInABrowser looks at the plot, zooms it and clicks at what was sent again.
func TestPlotInABrowser(t *testing.T) {
	b := launch(t)
	file := written(t, reported(t, "netem_loss.client"), "netem_loss.client.pcap")
	for _, scheme := range []string{"light", "dark"} {
		b.screen(1366, 1000, scheme)
		b.open(file)
		shot := b.shot("netem_loss-" + scheme)
		r := b.eval(`(() => { const r = byId("psn").getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; })()`).([]any)
		box := image.Rect(int(r[0].(float64)), int(r[1].(float64)), int(r[2].(float64)), int(r[3].(float64)))
		for _, name := range []string{"a", "bad", "warn", "ok"} {
			var want color.RGBA
			if _, err := fmt.Sscanf(fmt.Sprint(b.eval(`color("`+name+`")`)), "#%02x%02x%02x", &want.R, &want.G, &want.B); err != nil {
				t.Fatal(err)
			}
			if n := pixels(t, shot, box, want); n < 20 {
				t.Errorf("%s: the plot has %d pixels in the color %q", scheme, n, name)
			}
		}
	}
	before := b.shot("plot-before")
	b.click("#zoom-in")
	if bytes.Equal(before, b.shot("plot-zoomed")) {
		t.Error("zooming in changes nothing")
	}
	b.click("#zoom-all")
	b.eval(`(() => { const r = byId("psn").getBoundingClientRect(); let best = null;
		for (let x = r.left; x < r.right && !best; x += 2) for (let y = r.top; y < r.bottom && !best; y += 2) {
			byId("psn").dispatchEvent(new PointerEvent("pointermove", {clientX: x, clientY: y}));
			if (!byId("tip").hidden && byId("tip").textContent.includes("again")) best = [x, y];
		}
		window.best = best; })()`)
	at, ok := b.eval("best").([]any)
	if !ok {
		t.Fatal("nowhere in the plot is something that was sent again")
	}
	b.mouse("mousePressed", at[0], at[1])
	b.mouse("mouseReleased", at[0], at[1])
	b.eval(drawn)
	b.want(".row.chosen", "again")
	b.quiet()
}

// pixels counts the pixels of a color in a part of a picture.
func pixels(t *testing.T, shot []byte, box image.Rectangle, want color.RGBA) (n int) {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(shot))
	must.Do(t, err)
	if img.Bounds().Dx() != 1366 || img.Bounds().Dy() != 1000 {
		t.Fatalf("the picture has %v", img.Bounds())
	}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			r, g, b, _ := img.At(x, y).RGBA()
			if uint8(r>>8) == want.R && uint8(g>>8) == want.G && uint8(b>>8) == want.B {
				n++
			}
		}
	}
	return n
}

// TestFieldsInABrowser compares the fields that a click shows with decode's
// output for the same packets.
func TestFieldsInABrowser(t *testing.T) {
	b := launch(t)
	b.screen(1366, 768, "light")
	for _, c := range []string{"errs_atomic", "cm_cmx_reject", "errs_wr_inv_bad_rkey", "errs_ud_send_imm", "loss_read_rsp_last.server", "cm_rping_noserver_v6"} {
		file, err := os.ReadFile(captures + c + ".pcap")
		must.Do(t, err)
		var lines bytes.Buffer
		if _, err := decode.JSON(bytes.NewReader(file), &lines, decode.Options{}); err != nil {
			t.Fatal(err)
		}
		b.open(written(t, reported(t, c), c+".pcap"))
		b.click(`#conversations button[data-conversation="0"]`)
		dec := json.NewDecoder(&lines)
		for i := range 12 {
			var p decode.Packet
			if dec.Decode(&p) != nil {
				break
			}
			b.click(fmt.Sprintf(`.row[data-i="%d"]`, i))
			got := b.text("#details")
			for _, want := range fields(&p) {
				if !regexp.MustCompile(want).MatchString(got) {
					t.Errorf("%s, packet %d: no %s in\n%s", c, i+1, want, got)
				}
			}
		}
	}
	b.quiet()
}

// fields returns what is to be shown of a packet.
func fields(p *decode.Packet) []string {
	all := []string{
		regexp.QuoteMeta(p.BTH.Name), fmt.Sprintf(`Destination QP\s+0x%06x`, p.BTH.DestQPN), fmt.Sprintf(`PSN\s+0x%06x`, p.BTH.PSN),
		fmt.Sprintf(`P_Key\s+0x%04x`, p.BTH.PKey), fmt.Sprintf(`RDMA payload\s+%d byte`, p.Payload), `ICRC\s+right`, fmt.Sprintf(`Source\s+%s, port %d`, p.Src, p.SrcPort),
	}
	if p.AETH != nil {
		all = append(all, `Syndrome\s+`+regexp.QuoteMeta(p.AETH.Name), fmt.Sprintf(`MSN\s+%d`, p.AETH.MSN))
	}
	if p.RETH != nil {
		all = append(all, fmt.Sprintf(`Virtual address\s+0x%016x`, uint64(p.RETH.VA)), fmt.Sprintf(`R_Key\s+0x%08x`, p.RETH.RKey), fmt.Sprintf(`DMA length\s+%d`, p.RETH.Length))
	}
	if p.Atomic != nil {
		all = append(all, fmt.Sprintf(`Swap or add data\s+0x%016x`, uint64(p.Atomic.SwapAdd)), fmt.Sprintf(`Compare data\s+0x%016x`, uint64(p.Atomic.Compare)))
	}
	if p.AtomicAck != nil {
		all = append(all, fmt.Sprintf(`Original data\s+0x%016x`, uint64(*p.AtomicAck)))
	}
	if p.DETH != nil {
		all = append(all, fmt.Sprintf(`Q_Key\s+0x%08x`, p.DETH.QKey), fmt.Sprintf(`Source QP\s+0x%06x`, p.DETH.SrcQPN))
	}
	if p.Imm != nil {
		all = append(all, fmt.Sprintf(`Immediate data\s+0x%08x`, *p.Imm))
	}
	if p.InvRKey != nil {
		all = append(all, fmt.Sprintf(`R_Key to invalidate\s+0x%08x`, *p.InvRKey))
	}
	if p.MAD != nil {
		all = append(all, `Management datagram`, `message\s+`+p.MAD.Message, `tid\s+0x`, `local comm id\s+\d+`)
	}
	return all
}

// wire makes packets of a connection and follows them.
type wire struct {
	follower *explain.Follower
	now      time.Time
	record   int
}

func (w *wire) packet(from int, after time.Duration, comment string, p *roce.Packet) {
	w.now = w.now.Add(after)
	w.record++
	addrs := [2]netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, 1}), netip.AddrFrom4([4]byte{192, 0, 2, 2})}
	h := ipudp.Header{Src: addrs[from], Dst: addrs[1-from], SrcPort: 0xc000, DstPort: roce.Port, HopLimit: 64}
	p.BTH.PKey = ib.PKeyDefault
	seg := make([]byte, roce.Size(p.BTH.Opcode, len(p.Payload)))
	p.Build(seg)
	roce.Seal(seg, roce.NewPrefix(h.Src, h.Dst, h.SrcPort, h.DstPort, len(seg)))
	var head [ipudp.MaxLen]byte
	h.Put(head[:], len(seg))
	w.follower.Add(&pcapfile.Packet{
		Record: w.record, Time: w.now, Src: h.Src, Dst: h.Dst, SrcPort: h.SrcPort, DstPort: h.DstPort, IP: head[:ipudp.IPv4Len],
		UDP: head[ipudp.IPv4Len : ipudp.IPv4Len+ipudp.UDPLen], Payload: seg, Comment: comment,
	})
}

// busy follows a number of SENDs with their acknowledgements; every 1000th is lost
// once.
func busy(messages int) *explain.Report {
	w := &wire{follower: explain.New(explain.Config{Packets: MaxPackets, Messages: MaxMessages}), now: time.Unix(1, 0)}
	payload := make([]byte, 1024)
	for i := range uint32(messages) {
		send := &roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendOnly, DestQP: 0x22, PSN: ib.NewPSN(i), AckReq: true}, Payload: payload}
		w.packet(0, 3*time.Microsecond, "", send)
		if i%1000 == 999 {
			w.packet(0, 20*time.Millisecond, "", send)
		}
		w.packet(1, 2*time.Microsecond, "", &roce.Packet{
			BTH: roce.BTH{Opcode: roce.RCAcknowledge, DestQP: 0x11, PSN: ib.NewPSN(i)}, AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: ib.MSN(i + 1)},
		})
	}
	return w.follower.Report()
}

// TestManyPacketsInABrowser shows 100,000 packets: a list of which only a part is
// in the page at a time, and which answers at once.
func TestManyPacketsInABrowser(t *testing.T) {
	b := launch(t)
	b.screen(1366, 768, "light")
	r := busy(MaxPackets/2 + 1000)
	if len(r.Kept) != MaxPackets || r.Packets <= MaxPackets {
		t.Fatalf("%d of %d packets are kept", len(r.Kept), r.Packets)
	}
	file := written(t, r, "many.pcapng")
	if info, err := os.Stat(file); err != nil || info.Size() > 8<<20 {
		t.Errorf("the page has %d bytes, more than 8 MiB; %v", info.Size(), err)
	}
	b.open(file)
	b.want("#part", "100000 of 102051")
	b.want("#count", "100,000 packets")
	b.eval(`document.querySelector("#ladder .scroll").scrollTop = 1e9`)
	b.eval(drawn)
	b.want("#ladder", "100000")
	if n := b.number(`document.querySelectorAll("*").length`); n > 2000 {
		t.Errorf("the page has %d elements", n)
	}
	b.screen(720, 1020, "light")
	b.eval(drawn)
	if n := b.number(`document.querySelectorAll("*").length`); n > 2000 {
		t.Errorf("on a narrow screen the page has %d elements", n)
	}
	b.screen(1366, 768, "light")
	b.write("#filter", "again")
	b.want("#count", "49 of 100,000 packets")
	b.write("#filter", "")
	b.eval(`document.querySelector("#ladder .scroll").scrollTop = 0`)
	b.click("#ladder .row")
	b.click("#next")
	b.want("#details h3", "#2000 RC_SEND_ONLY")
	b.shot("many")
	b.quiet()
}

// TestHostileCapture shows a page names and comments that would be scripts if
// anything took them for more than text.
func TestHostileCapture(t *testing.T) {
	const attack = `</script></div><img src=x onerror="window.hit=1"><script>window.hit=1</script>'"{{.Data}}--><svg onload=window.hit=1>`
	w := &wire{follower: explain.New(explain.Config{Packets: MaxPackets}), now: time.Unix(1, 0)}
	send := &roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendOnly, DestQP: 0x22, PSN: ib.NewPSN(7)}}
	w.packet(0, 0, "lost by rule '"+attack+"'", send)
	w.packet(0, time.Second, attack, send)
	w.packet(1, time.Millisecond, "", &roce.Packet{BTH: roce.BTH{Opcode: roce.RCAcknowledge, DestQP: 0x11, PSN: ib.NewPSN(7)}, AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: 1}})
	r := w.follower.Report()
	var page bytes.Buffer
	must.Do(t, Write(&page, r, attack))
	for _, part := range []string{"<img", "<svg", "<script>window", "onerror=\""} {
		if strings.Contains(page.String(), part) {
			t.Errorf("the page has %s of a comment", part)
		}
	}
	b := launch(t)
	b.screen(1366, 768, "light")
	b.open(written(t, r, attack))
	b.click(`.row[data-i="1"]`)
	b.want("#details", "comment in the file: </script></div><img src=x")
	b.want("#verdict", "lost by rule '</script>")
	for range 3 {
		b.eval(drawn)
	}
	if hit := b.eval(`String(window.hit)`); hit != "undefined" {
		t.Error("a comment of the capture ran as a script")
	}
	b.quiet()
	b.eval(`(() => { const s = document.createElement("script"); s.textContent = "window.hit = 2"; document.body.append(s); })()`)
	if hit := b.eval(`String(window.hit)`); hit != "undefined" {
		t.Error("the page's policy lets other scripts run")
	}
}

// TestPrint prints a page: the verdict, the lists, the plot and the packets around
// the cause fit on a few sheets.
func TestPrint(t *testing.T) {
	b := launch(t)
	for _, c := range []string{"loss_read_rsp_middle.client", "errs_rnr_exceeded", "errs_send"} {
		b.screen(720, 1020, "dark") // the print is light
		b.open(written(t, reported(t, c), c+".pcap"))
		pdf := b.print(c)
		if pages := len(regexp.MustCompile(`/Type\s*/Page\b`).FindAll(pdf, -1)); !bytes.HasPrefix(pdf, []byte("%PDF")) || pages < 1 || pages > 3 {
			t.Errorf("%s: %d sheets", c, pages)
		}
		b.call("Emulation.setEmulatedMedia", map[string]any{"media": "print"}, nil)
		b.eval(`window.dispatchEvent(new Event("beforeprint"))`)
		b.shot(c + "-print")
		if got := b.eval(`getComputedStyle(document.body).backgroundColor`); got != "rgb(255, 255, 255)" {
			t.Errorf("%s: the paper is %v", c, got)
		}
		if c != "errs_send" {
			b.want("#print", "psn 0x12345")
		}
		b.call("Emulation.setEmulatedMedia", map[string]any{"media": ""}, nil)
	}
	b.quiet()
}
