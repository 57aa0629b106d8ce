package metrics

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
)

// TestTextfiles writes the file again and again, readable by others, and removes it at the end.
func TestTextfiles(t *testing.T) {
	e := New(Config{Log: t.Logf, QPs: 1})
	defer func() { must.Do(t, e.Close()) }()
	dir := t.TempDir()
	name := filepath.Join(dir, TextfileName)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Textfiles(ctx, e, dir, time.Millisecond) }()
	var first os.FileInfo
	for replaced := false; !replaced; { // each new file has another inode
		info, err := os.Stat(name)
		if err != nil {
			continue
		}
		if first == nil {
			first = info
		}
		replaced = !os.SameFile(first, info)
		if text, err := os.ReadFile(name); err == nil && (info.Mode().Perm() != 0o644 || !strings.Contains(string(text), "softhca_exporter_tables") || !strings.HasSuffix(string(text), "\n")) {
			t.Fatalf("the file has mode %v and the text\n%s", info.Mode(), text)
		}
	}
	cancel()
	must.Do(t, <-ended)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if err := Textfiles(t.Context(), e, filepath.Join(dir, "none"), time.Hour); !os.IsNotExist(err) {
		t.Errorf("into a directory that does not exist: %v", err)
	}
}
