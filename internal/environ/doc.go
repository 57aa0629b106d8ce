// Package environ reads the environment variables of this process, as
// secure_getenv(3) of the C library does: a program that has more rights than the
// user who started it (set-user-ID, set-group-ID, file capabilities) ignores all of
// them, because that user chose them.
//
// Reading order: environ.go, then secure_linux.go and secure_other.go, which find
// out whether the process is such a program.
//
// The libraries of softhca read variables in no other way; internal/rules checks
// that. Commands and tools may.
package environ
