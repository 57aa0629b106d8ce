//go:build !portable

package stream

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// The environment of TestHelperOfCrowd: the address, the number of the process, and the
// number of processes.
const (
	crowdAddr  = "CROWD_ADDR"
	crowdPlace = "CROWD_PLACE"
	crowdSize  = "CROWD_SIZE"
)

// crowdPort is the port of the first process.
const crowdPort = 2000

// TestHelperOfCrowd is one of many processes on an address. It echoes the data of every
// connection. On command it connects to the next process, and later once more.
func TestHelperOfCrowd(t *testing.T) {
	addr := os.Getenv(crowdAddr)
	if addr == "" {
		// It is the other process of a test.
		t.Skip("no address")
	}
	place, err := strconv.Atoi(os.Getenv(crowdPlace))
	must.Do(t, err)
	size, err := strconv.Atoi(os.Getenv(crowdSize))
	must.Do(t, err)
	h := newHost(t, verbs.Config{Addr: addr})
	l, err := ListenOn(t.Context(), h.m, fmt.Sprintf("%s:%d", addr, crowdPort+place))
	must.Do(t, err)
	go func() {
		for {
			c, err := l.Accept(t.Context())
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }() // the sender notices failures
		}
	}()
	told := bufio.NewScanner(os.Stdin)
	fmt.Println("listens")
	told.Scan()
	next := fmt.Sprintf("%s:%d", addr, crowdPort+(place+1)%size)
	c := echoed(t, h, next, nil, byte(place))
	fmt.Println("connected")
	told.Scan()
	echoed(t, h, next, c, byte(place+1))
	echoed(t, h, next, nil, byte(place+2))
	fmt.Println("still connected, and again")
	told.Scan() // until it is killed
}

// echoed sends data over a connection, and checks the echo. Without a connection it first
// connects to an address.
func echoed(t *testing.T, h *host, to string, c *Conn, fill byte) *Conn {
	t.Helper()
	if c == nil {
		var err error
		c, err = DialOn(soon(t), h.m, to)
		must.Do(t, err)
	}
	sent, got := bytes.Repeat([]byte{fill}, 100<<10), make([]byte, 100<<10)
	written := make(chan error, 1)
	go func() {
		_, err := c.Write(sent)
		written <- err
	}()
	_, err := io.ReadFull(c, got)
	must.Do(t, err)
	must.Do(t, <-written)
	if !bytes.Equal(sent, got) {
		t.Errorf("%x… came back, not %x…", got[:8], sent[:8])
	}
	return c
}

// TestD3_ManyProcesses starts the maximum number of processes on an address. Each
// listens, and each connects to the next. Then the process that is the broker is killed
// while they send. All connections of the others stay, and new ones are established.
func TestD3_ManyProcesses(t *testing.T) {
	size := 64
	began := time.Now()
	addr := loopback()
	all := make([]*another, size)
	for i := range all {
		all[i] = other(t, "TestHelperOfCrowd", crowdAddr+"="+addr, crowdPlace+"="+strconv.Itoa(i), crowdSize+"="+strconv.Itoa(size))
		if i == 0 {
			all[i].says(t, "listens") // the first process opens the address
		}
	}
	for _, p := range all[1:] {
		p.says(t, "listens")
	}
	t.Logf("%d processes are there after %v", size, time.Since(began))
	for _, p := range all {
		p.tell(t)
	}
	for _, p := range all {
		p.says(t, "connected")
	}
	t.Logf("all are connected after %v", time.Since(began))
	for _, p := range all[1 : size-1] { // the last is connected to the first
		p.tell(t)
	}
	must.Do(t, all[0].cmd.Process.Kill())
	for _, p := range all[1 : size-1] {
		p.says(t, "still connected, and again")
	}
	t.Logf("all others are connected once more after %v", time.Since(began))
}
