package testagent

import (
	"embed"
	"io/fs"
	"strings"
)

// files are the program for the peer's host.
//
//go:embed agent
var files embed.FS

// Source returns the C source of the program as one file, which compiles with
// "gcc -O2 -o agent agent.c -libverbs". With -DWITH_ATOMIC_WRITE, which needs rdma-core 44, it can post
// ATOMIC WRITE.
func Source() string {
	const include = "#include \"agent.h\"\n"
	header, _ := files.ReadFile("agent/agent.h") // cannot fail: the files are embedded
	names, _ := fs.Glob(files, "agent/*.c")      // agent.c is the first
	var b strings.Builder
	for _, name := range names {
		text, _ := files.ReadFile(name)
		b.Write(text)
	}
	return strings.ReplaceAll(strings.Replace(b.String(), include, string(header), 1), include, "")
}
