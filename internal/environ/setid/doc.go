// Package setid makes privileged programs for tests, set-user-ID, set-group-ID and with
// file capabilities, and runs them as another user, as an attacker does.
//
// Everything is in setid_linux.go. The package is for tests only, which are skipped unless
// root runs them.
package setid
