package ib

import "syscall"

// Errno is an error number of the operating system. Errors of the verbs
// unwrap to one, so errors.Is(err, syscall.EINVAL) works.
type Errno = syscall.Errno

// The error numbers that the verbs return.
const (
	EPERM      = syscall.EPERM
	ENOENT     = syscall.ENOENT
	EIO        = syscall.EIO
	EAGAIN     = syscall.EAGAIN
	ENOMEM     = syscall.ENOMEM
	EACCES     = syscall.EACCES
	EFAULT     = syscall.EFAULT
	EBUSY      = syscall.EBUSY
	EEXIST     = syscall.EEXIST
	ENODEV     = syscall.ENODEV
	EINVAL     = syscall.EINVAL
	ENOSPC     = syscall.ENOSPC
	EOPNOTSUPP = syscall.EOPNOTSUPP

	EADDRINUSE    = syscall.EADDRINUSE
	EADDRNOTAVAIL = syscall.EADDRNOTAVAIL
	ETIMEDOUT     = syscall.ETIMEDOUT
	EISCONN       = syscall.EISCONN
	ENOTCONN      = syscall.ENOTCONN
	ECONNREFUSED  = syscall.ECONNREFUSED
	ECONNRESET    = syscall.ECONNRESET
)
