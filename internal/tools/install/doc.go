// Command install builds and installs softhca, its libraries, manual pages and completions:
//
//	go run ./internal/tools/install PREFIX [DESTDIR]
//
// The command goes into PREFIX/bin, the C libraries into PREFIX/lib/softhca, manual pages
// into PREFIX/share/man/man1, and completions where bash, zsh and fish look for them. With
// DESTDIR all files go below that directory, as packagers need it.
//
// Reading order: main.go (the command line, and what to do next), install.go (the steps).
package main
