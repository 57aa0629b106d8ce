// Package page writes what explain found as one HTML file, which needs no network:
// the verdict, the conversations and findings, a ladder of the packets, their PSNs
// and throughput over time, the messages, and every packet's fields.
//
// Reading order: page.go (the file), data.go (what its script reads: tables as JSON
// and the packets as columns), layout.go (where the fields of a header are), page.html
// (the template), style.css, and the script: store.js (the packets), format.js (words),
// plot.js, ladder.js, details.js, messages.js and main.js.
//
// Whatever a capture says is untrusted. The template escapes what it shows; the rest is
// compressed and in base64, and the script only ever makes text of it. The page's
// policy allows this one script, this style, and nothing else.
package page
