package stream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/rdmacm/stream"
	"github.com/softhca/softhca/verbs"
)

// check ends an example on an error.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// open returns the connection manager of an adapter on a network in memory.
// Without Network it would be on an address of the host.
func open(n *verbs.Network, addr string) *rdmacm.Manager {
	m, err := rdmacm.Open(verbs.Config{Network: n, Addr: addr})
	check(err)
	return m
}

// A Listener and a Conn, used like those of package net.
func ExampleListenOn() {
	ctx := context.Background()
	n := verbs.NewNetwork()
	server, client := open(n, "10.0.0.1"), open(n, "10.0.0.2")
	defer server.Close()
	defer client.Close()

	l, err := stream.ListenOn(ctx, server, ":7471")
	check(err)
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept(ctx)
		check(err)
		line, err := bufio.NewReader(c).ReadString('\n')
		check(err)
		_, err = fmt.Fprintf(c, "you said %s", line)
		check(err)
		check(c.Close())
	}()
	c, err := stream.DialOn(ctx, client, "10.0.0.1:7471")
	check(err)
	_, err = fmt.Fprintln(c, "hello")
	check(err)
	answer, err := io.ReadAll(c)
	check(err)
	fmt.Printf("%s", answer)
	check(c.Close())
	<-done
	// Output: you said hello
}

// HTTP over RDMA: the server uses the Listener, the client's transport dials.
func ExampleListener_NetListener() {
	n := verbs.NewNetwork()
	server, client := open(n, "10.0.0.1"), open(n, "10.0.0.2")
	defer server.Close()
	defer client.Close()

	l, err := stream.ListenOn(context.Background(), server, ":80")
	check(err)
	hello := func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello %s", r.RemoteAddr[:8]) }
	srv := &http.Server{Handler: http.HandlerFunc(hello), ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(l.NetListener()) }() // until Close
	defer srv.Close()

	transport := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		return stream.DialOn(ctx, client, addr)
	}}
	defer transport.CloseIdleConnections()
	web := http.Client{Transport: transport}
	r, err := web.Get("http://10.0.0.1/")
	check(err)
	body, err := io.ReadAll(r.Body)
	check(err)
	check(r.Body.Close())
	fmt.Printf("%s %s\n", r.Status, body)
	// Output: 200 OK hello 10.0.0.2
}

// If Dial gets no answer until its deadline, the error says what it waited for.
func ExampleDialOn() {
	n := verbs.NewNetwork()
	m := open(n, "10.0.0.2")
	defer m.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := stream.DialOn(ctx, m, "10.0.0.1:7471")
	fmt.Println(err)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// dial 10.0.0.1:7471: no answer to the request to connect: is an adapter open there, does UDP port 4791 pass, and does its program accept?: context deadline exceeded
	// true
}
