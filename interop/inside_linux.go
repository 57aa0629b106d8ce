package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/softhca/softhca/interop/image"
	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/netns"
	"github.com/softhca/softhca/interop/suite"
)

// order tells a child which cases to run, and how.
type order struct {
	Kernels []string // that the matrix spans
	Kernel  string   // of this child's guest
	All     bool
	Short   bool
	Run     string
	Keep    bool
	Logs    bool // keep those of cases that pass, too
	Image   image.Image
	Dir     string // for the files of failed cases
}

// The descriptors on which a child reads its order and writes its events.
const (
	orderFD = 3
	eventFD = 4
	filesFD = 5 // the first of our files
)

// event is something that happened in a child; one of its fields is set.
type event struct {
	Begun string        // name of a case
	Ended *suite.Result // the result of a case
	Err   string        // why the child stops
}

// selection returns the cases of this child's kernel.
func (o *order) cases() ([]suite.Case, error) {
	s := suite.Selection{Kernels: o.Kernels, All: o.All, Short: o.Short}
	if o.Run != "" {
		re, err := regexp.Compile(o.Run)
		if err != nil {
			return nil, err
		}
		s.Match = re
	}
	var mine []suite.Case
	for _, c := range s.Cases(families()) {
		if o.Kernel == "" || c.Cell.Is("kernel", o.Kernel) {
			mine = append(mine, c)
		}
	}
	return mine, nil
}

// inside runs cases with one guest, in namespaces of its own.
func inside() int {
	ctx, stop := interruptible()
	defer stop()
	events := json.NewEncoder(os.NewFile(eventFD, "events"))
	var o order
	err := json.NewDecoder(os.NewFile(orderFD, "order")).Decode(&o)
	if err == nil {
		err = work(ctx, &o, events)
	}
	if err != nil {
		if ctx.Err() == nil {
			_ = events.Encode(event{Err: err.Error()}) // the parent may be gone
		}
		return exitFailed
	}
	return exitOK
}

// work boots the guest and runs the cases.
func work(ctx context.Context, o *order, events *json.Encoder) error {
	cases, err := o.cases()
	if err != nil {
		return err
	}
	if err := netns.Setup(); err != nil {
		return err
	}
	if err := install(netns.Files); err != nil {
		return err
	}
	l, err := lab.Setup(ctx, &o.Image, netns.Files)
	if err != nil {
		return err
	}
	defer l.Close()
	for _, c := range cases {
		if err := events.Encode(event{Begun: c.ID()}); err != nil {
			return err
		}
		r, err := suite.Run(ctx, l, c, o.Dir, o.Logs)
		if err != nil && ctx.Err() == nil {
			// The guest may be broken for later cases: boot it again.
			r.Verdict, r.Note = suite.Fail, strings.TrimSpace(err.Error())
			l.PowerOff()
			err = l.PowerOn(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.ID(), err)
		}
		if err := events.Encode(event{Ended: &r}); err != nil {
			return err
		}
	}
	if o.Keep {
		return errors.Join(shell(l))
	}
	return nil
}

// leave is the byte that ends a shell in the guest: Ctrl-].
const leave = 0x1D

// shell connects the terminal to a shell in the guest.
func shell(l *lab.Lab) error {
	fmt.Fprintf(os.Stderr, "A shell in the guest, which is %v and %v; this host is %v and %v. Ctrl-] leaves.\n", netns.Peer4, netns.Peer6, netns.Host4, netns.Host6)
	restore := rawTerminal(os.Stdin)
	defer restore()
	return l.Machine().Console(os.Stdin, os.Stdout, leave)
}
