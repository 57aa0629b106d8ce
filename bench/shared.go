package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
)

// sharedMissing returns what this machine lacks for sharing addresses, empty
// for nothing.
func sharedMissing() string {
	if runtime.GOOS != "linux" {
		return "Linux, where processes share addresses"
	}
	return ""
}

// share starts brokers for both ends' addresses, so that processes share these
// until end is called.
func (p *programs) share(ctx context.Context) (end func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, pairLimit)
	cmd := exec.CommandContext(ctx, p.softhca, "broker", "--addr", pairClient+","+pairServer)
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("%s: %w", told(cmd.Args), err)
	}
	end = func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}
	line, err := bufio.NewReader(said).ReadString('\n')
	if !strings.HasPrefix(line, "broker on ") {
		end()
		return nil, errors.Join(fmt.Errorf("%s says %q", told(cmd.Args), line), err)
	}
	return end, nil
}
