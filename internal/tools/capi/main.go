package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/softhca/softhca/internal/libraries"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/tools/capi DIRECTORY   (in the root of the source tree)")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := libraries.Build(ctx, ".", os.Args[1], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "capi:", err)
		os.Exit(1)
	}
	fmt.Printf("%s, %s and %s are in %s\n", libraries.Verbs, libraries.Engine, libraries.Preload, os.Args[1])
}
