// Command hello is a first program with package verbs: two adapters, a connection
// between them, an RDMA WRITE, and an error.
package main
