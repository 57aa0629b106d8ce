package top

// helpLines returns the help.
func helpLines() (lines []line) {
	title := func(s string) { lines = append(lines, line{name: s, style: Title}) }
	keys := func(all ...[2]string) {
		for _, k := range all {
			lines = append(lines, line{name: k[0], values: [2]string{k[1], ""}})
		}
		lines = append(lines, line{})
	}
	title("Keys")
	keys([2]string{"Tab, 1 to 5", "next view; connections, adapters, CQs, CM, MRs"},
		[2]string{"Up Down PgUp PgDn", "select a row; Home and End too"},
		[2]string{"Enter", "detail of a connection or an adapter; Esc leaves it"},
		[2]string{"F3 or /", "search; n finds the next row"},
		[2]string{"F4 or \\", "filter: show rows that have all words; Esc removes it"},
		[2]string{"F6", "choose the column to sort by; < and > take its neighbours"},
		[2]string{"I", "invert the order"},
		[2]string{"Space", "pause"},
		[2]string{"+ -", "longer interval, shorter interval"},
		[2]string{"F1, h or ?", "this help"},
		[2]string{"F10, q or Ctrl-C", "quit"})
	title("Columns of connections")
	keys([2]string{"SENT/s, RCVD/s", "messages per second"},
		[2]string{"SENT, RCVD Gb/s", "payload, in 10^9 bits per second"},
		[2]string{"WINDOW, FLIGHT", "bytes that may be in flight, and that are"},
		[2]string{"QUEUED", "work requests in the send queue"},
		[2]string{"RETRANS, TIMEOUT", "request packets sent again; expiries of the retry timer"},
		[2]string{"RNR", "RNR NAKs sent and received"},
		[2]string{"RTT", "smoothed round trip"},
		[2]string{"P50, P99", "completion time of half, and of 99 percent, of the send requests"},
		[2]string{"", "that completed in the last interval"},
		[2]string{"LAST ERROR", "status of the last completion with an error other than a flush"})
	title("Yellow is what grew in the last interval, red an error, grey the last state of a")
	title("process that died. Bars are full at the highest rate that this page has seen.")
	return lines
}
