package top

import (
	"context"
	"fmt"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/softhca/softhca/internal/observe"
)

// Reader reads the adapters, as observe.Set does.
type Reader func() ([]*observe.Adapter, error)

// Run shows the adapters in the terminal until the user quits or ctx ends, whose error it returns.
// It restores the terminal in any case.
func Run(ctx context.Context, read Reader, o Options) error {
	tcell.SetEncodingFallback(tcell.EncodingFallbackASCII)
	s, err := tcell.NewScreen()
	if err == nil {
		err = s.Init()
	}
	if err != nil {
		return fmt.Errorf("%w: this terminal cannot show it; use --once", err)
	}
	return show(ctx, s, read, o)
}

// maxEvents is the number of events of the terminal that wait for the screen to be drawn.
const maxEvents = 64

// show shows the adapters on a screen and closes it.
func show(ctx context.Context, s tcell.Screen, read Reader, o Options) error {
	defer s.Fini() // also after a panic, whose text is then readable
	events, quit := make(chan tcell.Event, maxEvents), make(chan struct{})
	defer close(quit)
	go s.ChannelEvents(events, quit)
	job := newJobControl()
	defer job.close()
	t := &terminal{job: job, screen: s, ui: NewUI(o), read: read, styles: styles(o.Colors), tick: time.NewTicker(o.Interval)}
	defer t.tick.Stop()
	t.update()
	for {
		t.draw()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-job.stops:
			if err := t.suspend(false); err != nil {
				return err
			}
		case <-job.goOn: // it was stopped by SIGSTOP, and the shell has had the terminal since
			if err := t.retake(); err != nil {
				return err
			}
		case <-t.tick.C:
			t.update()
		case e, open := <-events:
			for ; open; e, open = next(events) {
				if quit, err := t.event(e); quit || err != nil {
					return err
				}
			}
		}
	}
}

// next returns another event if one waits, so that the screen is drawn once for all of them.
func next(events <-chan tcell.Event) (e tcell.Event, ok bool) {
	select {
	case e, ok = <-events:
		return e, ok
	default:
		return nil, false
	}
}

// terminal is a screen that shows adapters.
type terminal struct {
	job    *jobControl
	screen tcell.Screen
	ui     *UI
	read   Reader
	styles [numStyles]tcell.Style
	tick   *time.Ticker
}

// update reads the adapters, unless the user paused.
func (t *terminal) update() {
	if t.ui.Paused() {
		return
	}
	all, err := t.read()
	t.ui.Update(all, time.Now(), err)
}

// event handles an event of the terminal.
func (t *terminal) event(e tcell.Event) (quit bool, err error) {
	switch e := e.(type) {
	case *tcell.EventResize:
		t.screen.Sync()
	case *tcell.EventError:
		return true, fmt.Errorf("the terminal: %w", e)
	case *tcell.EventKey:
		return t.key(e)
	}
	return false, nil
}

// key handles a key.
func (t *terminal) key(e *tcell.EventKey) (quit bool, err error) {
	switch e.Key() {
	case tcell.KeyCtrlZ:
		return false, t.suspend(true)
	case tcell.KeyCtrlL:
		t.screen.Sync()
		return false, nil
	}
	k, known := keyOfEvent(e)
	if !known {
		return false, nil
	}
	interval, paused := t.ui.Interval(), t.ui.Paused()
	quit = t.ui.Key(k)
	if interval != t.ui.Interval() {
		t.tick.Reset(t.ui.Interval())
	}
	if paused && !t.ui.Paused() {
		t.update()
	}
	return quit, nil
}

// suspend gives the terminal back, stops this process, or its whole job, and takes the terminal
// again when it goes on.
func (t *terminal) suspend(job bool) error {
	if err := t.screen.Suspend(); err != nil {
		return fmt.Errorf("give the terminal back: %w", err)
	}
	err := t.job.stop(job)
	if e := t.resume(); e != nil {
		return e
	}
	return err
}

// retake takes the terminal again after another program had it.
func (t *terminal) retake() error {
	if err := t.screen.Suspend(); err != nil {
		return fmt.Errorf("give the terminal back: %w", err)
	}
	return t.resume()
}

// resume takes the terminal again.
func (t *terminal) resume() error {
	if err := t.screen.Resume(); err != nil {
		return fmt.Errorf("take the terminal again: %w", err)
	}
	t.screen.Sync()
	t.update()
	return nil
}

// draw draws the screen.
func (t *terminal) draw() {
	t.ui.Resize(t.screen.Size())
	f := t.ui.Draw()
	for i, c := range f.Cells {
		t.screen.SetContent(i%f.Width, i/f.Width, c.Rune, nil, t.styles[c.Style])
	}
	t.screen.Show()
}

// keyOfEvent returns the key of an event; false if it has no meaning here.
func keyOfEvent(e *tcell.EventKey) (Key, bool) {
	if e.Key() == tcell.KeyRune {
		if e.Modifiers()&(tcell.ModAlt|tcell.ModCtrl) != 0 {
			return Key{}, false
		}
		return Key{KeyRune, e.Rune()}, true
	}
	code, ok := map[tcell.Key]Code{
		tcell.KeyUp: KeyUp, tcell.KeyDown: KeyDown, tcell.KeyLeft: KeyLeft, tcell.KeyRight: KeyRight, tcell.KeyPgUp: KeyPageUp, tcell.KeyPgDn: KeyPageDown,
		tcell.KeyHome: KeyHome, tcell.KeyEnd: KeyEnd, tcell.KeyEnter: KeyEnter, tcell.KeyEscape: KeyEscape, tcell.KeyTab: KeyTab, tcell.KeyBacktab: KeyBacktab,
		tcell.KeyBackspace: KeyBackspace, tcell.KeyBackspace2: KeyBackspace, tcell.KeyF1: KeyF1, tcell.KeyF3: KeyF3, tcell.KeyF4: KeyF4, tcell.KeyF6: KeyF6,
		tcell.KeyF10: KeyF10, tcell.KeyCtrlC: KeyInterrupt,
	}[e.Key()]
	return Key{Code: code}, ok
}

// styles returns how the terminal shows styles. Without colors, only by bold, dim and reverse.
func styles(colors bool) (all [numStyles]tcell.Style) {
	plain := tcell.StyleDefault
	all[Title] = plain.Bold(true)
	all[Heading], all[Sorted] = plain.Reverse(true), plain.Reverse(true).Bold(true)
	all[Selected], all[Active] = plain.Reverse(true), plain.Reverse(true)
	all[KeyName], all[Input] = plain.Bold(true), plain.Reverse(true)
	all[Warn], all[Bad], all[Dead] = plain.Bold(true), plain.Bold(true), plain.Dim(true)
	if !colors {
		return all
	}
	all[Heading] = plain.Foreground(tcell.ColorBlack).Background(tcell.ColorGreen)
	all[Sorted] = plain.Foreground(tcell.ColorBlack).Background(tcell.ColorTeal)
	all[Selected] = plain.Foreground(tcell.ColorBlack).Background(tcell.ColorTeal)
	all[Active] = plain.Foreground(tcell.ColorBlack).Background(tcell.ColorGreen)
	all[Label] = plain.Foreground(tcell.ColorTeal)
	all[KeyName] = plain.Foreground(tcell.ColorBlack).Background(tcell.ColorTeal)
	all[Input] = plain.Foreground(tcell.ColorBlack).Background(tcell.ColorTeal)
	all[Good], all[Received] = plain.Foreground(tcell.ColorGreen), plain.Foreground(tcell.ColorBlue)
	all[Warn], all[Bad] = plain.Foreground(tcell.ColorOlive), plain.Foreground(tcell.ColorMaroon).Bold(true)
	all[Dead] = plain.Foreground(tcell.ColorGray)
	return all
}
