package page

import (
	"fmt"
	"testing"
)

// cutOff returns elements whose text does not fit: cut by themselves, wider than the
// window, or higher than the row that they are in.
const cutOff = `(() => {
	const bad = [];
	const say = (e, why) => bad.push((e.id || e.className || e.tagName) + " " + why + ": " + e.textContent.trim().slice(0, 90));
	if (document.documentElement.scrollWidth > innerWidth) say(document.documentElement, "is wider than the window");
	for (const e of document.querySelectorAll("body *")) {
		if (!e.textContent.trim() || !e.getClientRects().length || e.closest("script, style, canvas")) continue;
		const s = getComputedStyle(e), r = e.getBoundingClientRect();
		if (r.right > innerWidth + 1) say(e, "reaches beyond the window");
		if ((s.overflowX === "hidden" || s.textOverflow === "ellipsis") && e.scrollWidth > e.clientWidth + 1) say(e, "is cut at its side");
		if (s.overflowY === "hidden" && e.scrollHeight > e.clientHeight + 1 && !e.matches("html, body, #body")) say(e, "is cut at its end");
		const row = e.closest(".scroll .row");
		if (row && e !== row && (r.bottom > row.getBoundingClientRect().bottom + 1 || r.top < row.getBoundingClientRect().top - 1)) say(e, "is higher than its row");
	}
	return [...new Set(bad)].slice(0, 12).join("\n");
})()`

// TestNothingIsCut looks at pages with long lines in windows of several widths: all text is
// there, also after the window has become narrower.
func TestNothingIsCut(t *testing.T) {
	b := launch(t)
	for capture, scheme := range map[string]string{"cm_rping_v6": "dark", "netem_loss.client": "light", "errs_mw_send_inv": "dark"} {
		file := written(t, reported(t, capture), capture+".pcap")
		b.screen(1366, 768, scheme)
		b.open(file)
		for _, width := range []int{1366, 1024, 420, 360} {
			b.screen(width, 768, scheme)
			for _, tab := range []string{"messages", "ladder"} {
				b.click(`#tabs button[data-tab="` + tab + `"]`)
				b.eval(drawn)
				if tab == "messages" && b.number(`document.querySelector("#messages .head").offsetHeight`) < 15 {
					t.Errorf("%s, %d pixels wide: the list of messages has no heading", capture, width)
				}
				if cut := b.eval(cutOff); cut != "" {
					t.Errorf("%s, %d pixels wide, %s:\n%v", capture, width, tab, cut)
				}
				b.eval(`document.getElementById("packets").scrollIntoView()`)
				b.shot(fmt.Sprintf("cut-%s-%d-%s-%s", capture, width, tab, scheme))
			}
		}
	}
	b.quiet()
}
