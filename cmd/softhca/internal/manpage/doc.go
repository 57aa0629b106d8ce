// Package manpage writes manual pages of commands, in the language of man(7),
// from what their help says.
//
// The package writes what it is given and reads nothing: the same commands give
// the same pages.
package manpage
