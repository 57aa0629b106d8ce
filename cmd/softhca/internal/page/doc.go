// Package page writes a report of explain as one HTML file, which needs no network:
// the verdict, the conversations and findings, a ladder of the packets, their PSNs
// and throughput over time, the messages, and every packet's fields.
//
// Reading order: page.go (the file), data.go (the data of its script: tables as JSON
// and the packets as columns), layout.go (the fields of headers), page.html (the
// template), style.css, and the script: store.js (the packets), format.js (words),
// plot.js, ladder.js, details.js, messages.js and main.js.
//
// It also writes a report of explore, with the same style: explored.go (the file and
// its data), explored.html, explored.css and explored.js.
//
// The content of a capture, and what an explored program writes, is untrusted. The template escapes it; the rest is
// compressed and in base64, and the script shows it only as text. The page's policy
// allows only this script and this style.
package page
