// Package userns says which user IDs are ambiguous in the user namespace of this process:
// the kernel reports the overflow ID for every user whom the namespace does not map.
//
// Everything is in userns_linux.go. The package changes no user and no namespace.
package userns
