package verbs_test

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// Two sides connect without package rdmacm: they exchange their endpoints as lines of
// text, over any kind of connection.
func ExampleEndpoint() {
	n := verbs.NewNetwork()
	a, b := newSide(n, "10.0.0.1", ib.RC), newSide(n, "10.0.0.2", ib.RC)
	defer a.ctx.Close()
	defer b.ctx.Close()

	own, err := a.qp.Endpoint(ib.NewPSN(0x5a3c01), 0) // a real program draws the PSN
	must(err)
	other, err := b.qp.Endpoint(ib.NewPSN(0x000007), 0)
	must(err)
	said := other.String() // the line that came from the other side

	var peer verbs.Endpoint
	must(peer.UnmarshalText([]byte(said)))
	common := verbs.QPAttr{AccessFlags: ib.AccessRemote, PathMTU: ib.MTU1024, Timeout: 14, RetryCnt: 7, RNRRetry: 7}
	must(a.qp.ModifyToRTS(own.Connected(peer, common)))
	must(b.qp.ModifyToRTS(other.Connected(own, common)))

	must(b.qp.PostRecv(verbs.RecvWR{WRID: 7, SGList: []verbs.SGE{b.mr.SGE(0, 4096)}}))
	must(a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, SGList: []verbs.SGE{a.mr.SGE(0, 5)}}))
	fmt.Printf("the peer is at %v, PSN %v\n", peer.GID.Addr(), peer.PSN)
	fmt.Printf("its receive: %v\n", b.poll().Status)
	// Output:
	// the peer is at 10.0.0.2, PSN 0x000007
	// its receive: SUCCESS
}

// The adapters of this host, each with the GID index by which other hosts reach it.
func ExampleDevices() {
	devices, err := verbs.Devices()
	must(err)
	for _, d := range devices {
		i := d.GIDIndex() // 0 may be link-local
		fmt.Printf("%s: GID index %d, %v\n", d.Name, i, d.GIDs[i].Addr())
	}
}

// A log at level Warn reports only failures, such as a WRITE that the peer refuses.
func ExampleConfig_log() {
	n := verbs.NewNetwork()
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey { // makes the output repeatable
				return slog.Attr{}
			}
			return a
		},
	})
	ctx, err := verbs.Open(verbs.Config{Network: n, Addr: "10.0.0.1", Log: slog.New(handler), Seed: 1})
	must(err)
	peer, err := verbs.Open(verbs.Config{Network: n, Addr: "10.0.0.2", Seed: 2})
	must(err)
	a, b := newSideOn(ctx, ib.RC), newSideOn(peer, ib.RC)
	defer b.ctx.Close()
	a.connect(b)
	b.connect(a)

	must(a.qp.PostSend(verbs.SendWR{
		Opcode: ib.WRRDMAWrite, SGList: []verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() + 1,
	}))
	a.poll()
	must(ctx.Close()) // nothing is logged any more
	// Output:
	// level=WARN msg="completion with error" qp=0x001e60 conn=10.0.0.1/0x001e60-10.0.0.2/0x00d958 wr_id=0 status=REM_ACCESS_ERR
}
