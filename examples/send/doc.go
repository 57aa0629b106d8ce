// Command send is the first program of package verbs: two adapters, a connection
// between them, and a message. The package's documentation shows it.
package main
