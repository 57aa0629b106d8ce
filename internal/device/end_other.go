//go:build !unix

package device

import "os"

// kill ends this process at once, as a crash of its machine would.
func kill() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
}

// pause does nothing: processes here cannot be stopped.
func pause() {}

// canPause reports whether pause works.
const canPause = false
