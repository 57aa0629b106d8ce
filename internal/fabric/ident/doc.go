// Package ident changes the IPv4 identifications of a run after its packets
// were sealed: the ICRC covers the identification, and a port that cannot send
// segment i with identification i must say so in the ICRC.
//
// Reading order: ident.go.
package ident
