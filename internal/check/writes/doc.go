// Package writes has the log of the writes that the checked adapters of the process make to registered
// memory. The log is one for all of them, because adapters may share memory: what one of them writes may
// be in a buffer that another one sends.
//
// The package also knows whether the process has adapters that do not log. While it has, nothing can be
// said about who changed a buffer. The sink of findings that "softhca run --check" reads is also one for all adapters.
package writes
