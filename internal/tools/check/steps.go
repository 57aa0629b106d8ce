package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/softhca/softhca/internal/rules"
)

// allSteps returns the gate in order: what fails fast comes first.
func allSteps(fuzztime time.Duration) []step {
	root := os.DirFS(".")
	return []step{
		{"gofmt", func(context.Context) (string, error) { return unformatted(root) }},
		{"build", tool(nil, "build", "./...")},
		{"build-nocgo", tool([]string{"CGO_ENABLED=0"}, "build", "./...")},
		{"build-darwin", tool([]string{"CGO_ENABLED=0", "GOOS=darwin", "GOARCH=arm64"}, "build", "./...")},
		{"build-windows", tool([]string{"CGO_ENABLED=0", "GOOS=windows", "GOARCH=amd64"}, "build", "./...")},
		{"build-js-engine", buildEngine},
		{"vet", tool(nil, "vet", "./...")},
		{"vet-darwin", tool([]string{"CGO_ENABLED=0", "GOOS=darwin", "GOARCH=arm64"}, "vet", "./...")},
		{"vet-windows", tool([]string{"CGO_ENABLED=0", "GOOS=windows", "GOARCH=amd64"}, "vet", "./...")},
		{"staticcheck", tool(nil, "tool", "staticcheck", "./...")},
		{"generated", func(ctx context.Context) (string, error) { return outdated(ctx, ".") }},
		{"modules", tool(nil, "mod", "verify")},
		{"modules-tidy", tool(nil, "mod", "tidy", "-diff")},
		{"test-race", tool([]string{"CGO_ENABLED=1"}, "test", "-race", "-timeout=6m", "./...")},
		{"fuzz", func(ctx context.Context) (string, error) { return fuzzAll(ctx, ".", fuzztime) }},
	}
}

// tool returns a step that runs the go command with the environment env added.
func tool(env []string, args ...string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return goCommand(ctx, ".", env, args...) }
}

// goCommand runs the go command in dir and returns everything it printed.
func goCommand(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return string(output), err
}

// buildEngine builds for the browser what the table of levels calls engine.
func buildEngine(ctx context.Context) (string, error) {
	m, err := rules.Load(os.DirFS("."))
	if err != nil {
		return "", err
	}
	pkgs := m.EnginePackages()
	if len(pkgs) == 0 {
		return "", fmt.Errorf("the module has no engine package")
	}
	return goCommand(ctx, ".", []string{"GOOS=js", "GOARCH=wasm"}, append([]string{"build"}, pkgs...)...)
}

// fuzzAll runs every fuzz target of the module in dir for the given time.
func fuzzAll(ctx context.Context, dir string, each time.Duration) (string, error) {
	targets, err := fuzzTargets(os.DirFS(dir))
	if err != nil {
		return "", err
	}
	for _, t := range targets {
		output, err := goCommand(ctx, dir, nil, "test", "-run=^$", "-fuzz=^"+t.name+"$", "-fuzztime="+each.String(), "./"+t.dir)
		if err != nil && !onlyLate(output) {
			return output, err
		}
	}
	return "", nil
}

// onlyLate reports whether a fuzz target failed only because its workers were
// not done when the time was over: the go command calls that a failure at
// times (golang/go#48591). A real one leaves the input that caused it.
func onlyLate(output string) bool {
	return strings.Contains(output, "context deadline exceeded") &&
		!strings.Contains(output, "Failing input") && !strings.Contains(output, "panic")
}
