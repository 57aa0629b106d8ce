//go:build !unix

package top

import "os"

// jobControl does nothing: this system does not stop processes.
type jobControl struct{ stops, goOn chan os.Signal }

func newJobControl() *jobControl { return &jobControl{} }

func (j *jobControl) close() {}

func (j *jobControl) stop(bool) error { return nil }
