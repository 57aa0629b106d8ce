package capture

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/lock"
)

// Options are the settings of a capture. A zero field means its default.
type Options struct {
	Clock  func() time.Time // stamps the packets; default time.Now
	Buffer int              // bytes buffered before a write, at least 4 KiB; default 64 KiB
	Prompt bool             // write after each Send and Receive: for processes that may end without Close
	// Journal, if set, is the adapter's log, which Wrap adds to the capture.
	Journal *Journal
}

// defaultBuffer is the default number of bytes buffered before a write.
const defaultBuffer = 64 << 10

// minBuffer is the least size of the buffer, in bytes: with less, pcapgo would add a buffer of its own, and
// what it writes and entries would not stay in order.
const minBuffer = 4 << 10

// Port is a fabric.Port that records passing packets. Wake, Wait, Stats and
// Caps are those of the wrapped port.
type Port struct {
	fabric.Port
	caps   fabric.Caps
	clock  func() time.Time
	quick  bool  // every packet is written at once
	out    stage // frames that Send may have to write; used by Send only
	in     stage // frames that Receive writes; used by Receive only
	gone   stage // frames from Arrived; used by Receive only
	places []int // for each frame of gone, the number of packets before it

	mu      lock.Mutex[lock.Capture] // guards what follows
	file    *pcapgo.NgWriter         // writes into buffer
	buffer  *bufio.Writer
	block   []byte // memory for an entry
	dirty   bool   // the buffer is not empty
	closed  bool
	err     error // first error of the file, which ended the capture
	missing uint64
	notes   []note // for packets that are about to be recorded
}

var _ fabric.Port = (*Port)(nil)

// Wrap returns a port that works like p and writes a capture to w, starting with the file's header.
// The wrapper owns p: closing it closes p. The caller owns w and may close it after Close returned.
// One goroutine at a time writes to w. Unless Options.Prompt is set, up to Options.Buffer bytes are
// buffered until a Wait.
func Wrap(p fabric.Port, w io.Writer, o Options) (*Port, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Buffer <= 0 {
		o.Buffer = defaultBuffer
	}
	caps := p.Caps()
	nif := pcapgo.NgInterface{
		Name:                cmp.Or(caps.Interface, caps.Name),
		Description:         "softhca " + caps.Name + " port",
		LinkType:            layers.LinkTypeEthernet,
		TimestampResolution: 9,
	}
	options := pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "softhca"}}
	buffer := bufio.NewWriterSize(w, max(o.Buffer, minBuffer))
	file, err := pcapgo.NewNgWriterInterface(buffer, nif, options)
	if err == nil {
		err = file.Flush()
	}
	if err != nil {
		return nil, fmt.Errorf("capture: write header: %w", err)
	}
	wrapped := &Port{Port: p, caps: caps, clock: o.Clock, quick: o.Prompt, file: file, buffer: buffer}
	if o.Journal != nil {
		o.Journal.port.Store(wrapped)
	}
	return wrapped, nil
}

// Send implements fabric.Port. It records the segments that the port removed
// from the batch, unpatched, including those that it refused permanently.
func (p *Port) Send(b *fabric.Batch) error {
	now := p.clock()
	runs := b.Pending()
	p.out.reset()
	for i := range runs {
		p.out.run(&runs[i], p.caps.SrcPort)
	}
	all := len(p.out.ends)
	err := p.Port.Send(b)
	left := 0
	for _, r := range b.Pending() {
		left += r.Count
	}
	p.write(&p.out, 0, max(all-left, 0), now, pcapgo.NgEpbFlagDirectionOutbound)
	return err
}

// Receive implements fabric.Port.
func (p *Port) Receive(ds []fabric.Datagram) (int, error) {
	n, err := p.Port.Receive(ds)
	if n == 0 && len(p.places) == 0 {
		return n, err
	}
	now := p.clock()
	p.in.reset()
	for i := range ds[:n] {
		p.in.datagram(&ds[i])
	}
	p.arrived(now)
	return n, err
}

// arrived writes arrived packets in order: all of in, and those of gone that precede
// the packets that Receive has still to return.
func (p *Port) arrived(now time.Time) {
	all, written, k := len(p.in.ends), 0, 0
	for ; k < len(p.places) && p.places[k] <= all; k++ {
		upTo := max(p.places[k], written)
		p.write(&p.in, written, upTo, now, pcapgo.NgEpbFlagDirectionInbound)
		p.write(&p.gone, k, k+1, now, pcapgo.NgEpbFlagDirectionInbound)
		written = upTo
	}
	p.write(&p.in, written, all, now, pcapgo.NgEpbFlagDirectionInbound)
	p.gone.drop(k)
	p.places = p.places[:copy(p.places, p.places[k:])]
	for i := range p.places {
		p.places[i] -= all
	}
}

// write appends frames lo to hi of s to the file.
func (p *Port) write(s *stage, lo, hi int, now time.Time, direction pcapgo.NgEpbFlag) {
	p.mu.Lock()
	defer p.mu.Unlock()
	options := pcapgo.NgPacketOptions{Flags: &pcapgo.NgEpbFlags{Direction: direction}}
	for i := lo; i < hi; i++ {
		if p.err != nil {
			p.missing++
			continue
		}
		frame := s.frame(i)
		options.Comments = nil
		if len(p.notes) > 0 {
			options.Comments = p.comments(frame)
		}
		info := gopacket.CaptureInfo{Timestamp: now, CaptureLength: len(frame), Length: len(frame)}
		p.fail(p.file.WritePacketWithOptions(info, frame, options))
		p.dirty = true
	}
	if p.quick {
		p.flushHeld()
	}
}

// fail ends the capture if err is an error. The mutex is held.
func (p *Port) fail(err error) {
	if err != nil && p.err == nil {
		p.err = err
		p.missing++
	}
}

// flush writes the buffer.
func (p *Port) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushHeld()
}

// flushHeld is flush with the mutex held.
func (p *Port) flushHeld() {
	if p.dirty && p.err == nil {
		p.dirty = false
		p.fail(p.file.Flush())
	}
}

// Wait implements fabric.Port. The file is complete up to here.
func (p *Port) Wait(timeout time.Duration, read, write bool) error {
	if timeout != 0 {
		p.flush()
	}
	return p.Port.Wait(timeout, read, write)
}

// Err returns the error that ended the capture, with the number of packets lost
// since then, or nil.
func (p *Port) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		return nil
	}
	return fmt.Errorf("capture: at least %d packets are missing: %w", p.missing, p.err)
}

// Close implements fabric.Port: it closes the wrapped port, completes the file
// and returns the errors of both.
func (p *Port) Close() error {
	err := p.Port.Close()
	p.mu.Lock()
	p.flushHeld()
	p.closed = true
	p.mu.Unlock()
	return errors.Join(err, p.Err())
}
