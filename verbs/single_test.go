package verbs

import (
	"context"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// stream posts n WRITEs to peer one by one, as many at a time as fit, and polls
// until all of them are complete; one in each is signalled.
func (e *endpoint) stream(t *testing.T, peer *endpoint, n, each int) {
	t.Helper()
	const depth = 128
	wcs := make([]WC, 32)
	posted, done := 0, 0
	for done < n {
		for posted < n && posted-done < depth {
			wr := e.write(uint64(posted), 64, peer)
			if posted++; posted%each == 0 {
				wr.Flags = ib.SendSignaled
			}
			must.Do(t, e.qp.PostSend(wr))
		}
		for _, wc := range wcs[:poll(t, e.cq, wcs)] {
			if wc.Status != ib.WCSuccess || wc.WRID != uint64(done+each-1) {
				t.Fatalf("completion %+v, want request %d", wc, done+each-1)
			}
			done += each
		}
	}
}

// TestSinglePosts posts one request at a time and polls, so that posts wait to be sent
// together. Then it stops polling with posts outstanding: each is still sent and
// completes.
func TestSinglePosts(t *testing.T) {
	const posts = 20
	for name, then := range map[string]func(t *testing.T, a, b *endpoint){
		"it polls": func(t *testing.T, a, b *endpoint) {
			a.wait(t, posts)
			b.wait(t, posts)
		},
		"it does nothing": func(t *testing.T, a, b *endpoint) {
			b.wait(t, posts)
			a.wait(t, posts)
		},
		"it sleeps until there is a completion": func(t *testing.T, a, b *endpoint) {
			for done := 0; done < posts; {
				must.Do(t, a.cq.ReqNotify(false))
				wcs := make([]WC, posts)
				if n := poll(t, a.cq, wcs); n > 0 {
					done += n
					continue
				}
				ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
				_, err := a.ch.Get(ctx)
				cancel()
				must.Do(t, err)
			}
			b.wait(t, posts)
		},
		"another thread polls": func(t *testing.T, a, b *endpoint) {
			polled := make(chan struct{})
			go func() {
				defer close(polled)
				a.wait(t, posts)
			}()
			b.wait(t, posts)
			<-polled
		},
		"it asks for the state": func(t *testing.T, a, b *endpoint) {
			_, err := a.qp.Query()
			must.Do(t, err)
			b.wait(t, posts)
			a.wait(t, posts)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newUDPPair(t, ib.RC)
			init := a.init(ib.RC)
			init.SQSig = ib.SigPerWR
			var err error
			must.Do(t, a.qp.Destroy())
			a.qp, err = a.pd.CreateQP(init)
			must.Do(t, err)
			connect(t, a, b, nil)
			for round := range 4 {
				for i := range posts {
					must.Do(t, b.qp.PostRecv(b.recv(uint64(i), uint64(i)*64, 64)))
				}
				a.stream(t, b, 4096, 1+round%2*3) // each signalled, or one in four
				for i := range posts {
					wr := a.send(uint64(i), 64)
					wr.Flags = ib.SendSignaled
					must.Do(t, a.qp.PostSend(wr))
				}
				then(t, a, b)
			}
			a.quiet(t, "one completion too many")
		})
	}
}
