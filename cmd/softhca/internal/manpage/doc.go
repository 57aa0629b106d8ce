// Package manpage writes manual pages of commands, in the language of man(7),
// from their help.
//
// The package reads nothing else: the same commands give the same pages.
package manpage
