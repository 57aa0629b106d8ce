// Package trace defines the records of what an adapter did: packets, state
// changes, completions, events, retries. A record is a fixed-size value; how
// it is shown (text, JSON, a ladder) is up to the reader.
//
// The package keeps none of them: whoever is called with a record copies what
// it wants.
package trace
