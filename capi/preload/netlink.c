// Netlink sockets for RDMA. Such a socket is a Unix socket that is connected to itself: requests
// do not pass through it, and the answers, which this library sends, wait in its queue. So the
// program can poll, copy, inherit and close the descriptor, and this library keeps no state but
// the number of these sockets. Other processes cannot send to the socket, because it is connected.
//
// An address that only such sockets have distinguishes them; it contains the port ID. A dump that
// is not finished is a message in the queue too: when the program receives, this library takes
// that message and sends the next part.
//
// A program that inherits such a socket by exec has no answers on it until it opens one itself.

#define _GNU_SOURCE
#include "netlink.h"

#include "next.h"
#include "nldev.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SOL_NETLINK
#define SOL_NETLINK 270
#endif

atomic_int netlink_sockets;

// address is the address of a socket, in the abstract name space.
struct address {
	sa_family_t family;
	char mark[22]; // begins with NUL
	uint32_t port_id;
	uint64_t inode; // of the socket: makes the address unique
} __attribute__((packed));

static const char mark[22] = "\0softhca-rdma-netlink";

enum { BIND_ATTEMPTS = 16 };

// token is an unfinished dump in the queue. A reader that does not know it skips it: it has the
// form of a netlink message without a meaning.
struct token {
	struct nlmsghdr header;
	uint64_t magic;
	struct dump dump;
};

#define TOKEN_MAGIC UINT64_C(0x736f66746863616e)

// is_netlink reports whether a descriptor is that of such a socket.
static COLD bool is_netlink(int fd, struct address *a)
{
	const int had = errno;
	socklen_t len = sizeof(*a);
	const bool is = syscall(SYS_getsockname, fd, a, &len) == 0 && len == sizeof(*a) && a->family == AF_UNIX && memcmp(a->mark, mark, sizeof(mark)) == 0;

	errno = had;
	return is;
}

static uint64_t inode_of(int fd)
{
	struct stat s;

	return syscall(SYS_newfstatat, fd, "", &s, AT_EMPTY_PATH) == 0 ? s.st_ino : 0;
}

// name binds a socket to an address of its own and connects it to itself.
static bool name(int fd, uint32_t port_id)
{
	struct address a = { .family = AF_UNIX, .port_id = port_id, .inode = inode_of(fd) };

	memcpy(a.mark, mark, sizeof(mark));
	for (int i = 0; i < BIND_ATTEMPTS; i++, a.inode += UINT64_C(1) << 32) { // another user may have taken it
		if (syscall(SYS_bind, fd, &a, sizeof(a)) == 0)
			return syscall(SYS_connect, fd, &a, sizeof(a)) == 0;
		if (errno != EADDRINUSE)
			return false;
	}
	return false;
}

// make returns a new socket. Of port ID 0 it chooses one, as the kernel does: that of the first
// socket is the process ID.
static int make(uint32_t port_id, int flags)
{
	const int fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_DGRAM | flags, 0);

	if (fd < 0)
		return -1;
	if (port_id == 0)
		port_id = any_netlink() ? UINT32_C(1) << 31 | ((uint32_t)inode_of(fd) & INT32_MAX) : (uint32_t)getpid();
	if (name(fd, port_id))
		return fd;
	const int error = errno;
	syscall(SYS_close, fd);
	errno = error;
	return -1;
}

static COLD int open_netlink(int type)
{
	const int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (kind != SOCK_RAW && kind != SOCK_DGRAM) {
		errno = ESOCKTNOSUPPORT;
		return -1;
	}
	const int fd = make(0, type & (SOCK_NONBLOCK | SOCK_CLOEXEC));
	if (fd >= 0)
		atomic_fetch_add(&netlink_sockets, 1);
	return fd;
}

SHOWN int socket(int domain, int type, int protocol)
{
	char room[ROOT_MAX];

	if (unlikely(domain == AF_NETLINK && protocol == NETLINK_RDMA) && *image_root(room) != '\0')
		return open_netlink(type);
	return NEXT_CALL(socket)(domain, type, protocol);
}

// gone reports whether no descriptor of the socket with an address is left.
static bool gone(const struct address *a)
{
	const int fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const bool is = fd >= 0 && syscall(SYS_connect, fd, a, sizeof(*a)) != 0 && errno == ECONNREFUSED;

	if (fd >= 0)
		syscall(SYS_close, fd);
	return is;
}

bool close_netlink(int fd, int *result)
{
	struct address a;

	if (!any_netlink() || !is_netlink(fd, &a))
		return false;
	*result = (int)syscall(SYS_close, fd);
	const int error = errno;
	if (gone(&a))
		atomic_fetch_sub(&netlink_sockets, 1);
	errno = error;
	return true;
}

static int fail(int error)
{
	errno = error;
	return -1;
}

// rebind replaces a socket by one with the port ID that the program wants.
static int rebind(int fd, uint32_t port_id)
{
	const long keep = syscall(SYS_fcntl, fd, F_GETFD), status = syscall(SYS_fcntl, fd, F_GETFL);
	const int made = make(port_id, status & O_NONBLOCK ? SOCK_NONBLOCK : 0);

	if (made < 0)
		return -1;
	const long result = syscall(SYS_dup3, made, fd, keep & FD_CLOEXEC ? O_CLOEXEC : 0);
	syscall(SYS_close, made);
	return result < 0 ? -1 : 0;
}

static COLD int bind_netlink(int fd, const struct address *a, const struct sockaddr_nl *to, socklen_t len)
{
	if (len < sizeof(*to) || to->nl_family != AF_NETLINK)
		return fail(EINVAL);
	if (to->nl_pid == 0 || to->nl_pid == a->port_id)
		return 0;
	return rebind(fd, to->nl_pid);
}

SHOWN int bind(int fd, const struct sockaddr *to, socklen_t len)
{
	struct address a;

	if (any_netlink() && is_netlink(fd, &a))
		return bind_netlink(fd, &a, (const struct sockaddr_nl *)to, len);
	return NEXT_CALL(bind)(fd, to, len);
}

// copy_address writes the address of a netlink socket into the room of the program.
static void copy_address(uint32_t port_id, void *to, socklen_t *len)
{
	const struct sockaddr_nl a = { .nl_family = AF_NETLINK, .nl_pid = port_id };

	if (to != NULL)
		memcpy(to, &a, *len < sizeof(a) ? *len : sizeof(a));
	*len = sizeof(a);
}

SHOWN int getsockname(int fd, struct sockaddr *name, socklen_t *len)
{
	struct address a;

	if (!any_netlink() || !is_netlink(fd, &a))
		return NEXT_CALL(getsockname)(fd, name, len);
	copy_address(a.port_id, name, len);
	return 0;
}

// The options of a netlink socket. None of them changes anything here: an acknowledgement never
// includes the request, and there are no notifications.
enum { OPTION_FIRST = 1, OPTION_LAST = 12 };

SHOWN int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
	struct address a;

	if (!any_netlink() || level != SOL_NETLINK || !is_netlink(fd, &a))
		return NEXT_CALL(setsockopt)(fd, level, option, value, len);
	if (option < OPTION_FIRST || option > OPTION_LAST)
		return fail(ENOPROTOOPT);
	return len < sizeof(int) ? fail(EINVAL) : 0;
}

bool send_part(int fd, const void *part, size_t len)
{
	return syscall(SYS_sendto, fd, part, len, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) == (long)len;
}

bool keep_dump(int fd, const struct dump *d)
{
	const struct token t = {
		.header = { .nlmsg_len = sizeof(t), .nlmsg_type = NLMSG_NOOP, .nlmsg_flags = NLM_F_MULTI, .nlmsg_seq = d->seq, .nlmsg_pid = d->port_id },
		.magic = TOKEN_MAGIC,
		.dump = *d,
	};

	return send_part(fd, &t, sizeof(t));
}

struct work *borrow(void)
{
	void *w = mmap(NULL, sizeof(struct work), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return w == MAP_FAILED ? NULL : w;
}

// send_netlink answers the messages of a program.
static COLD ssize_t send_netlink(int fd, const struct address *a, const struct msghdr *m, int flags)
{
	const struct sockaddr_nl *to = m->msg_name;
	size_t len = 0;
	bool room = true;

	if ((flags & MSG_OOB) != 0)
		return fail(EOPNOTSUPP);
	if (to != NULL && m->msg_namelen > 0) {
		if (m->msg_namelen < sizeof(*to) || to->nl_family != AF_NETLINK)
			return fail(EINVAL);
		if (to->nl_pid != 0 || to->nl_groups != 0)
			return fail(EPERM); // only the kernel is there
	}
	struct work *w = borrow();
	if (w == NULL)
		return -1;
	for (size_t i = 0; i < m->msg_iovlen; i++) {
		const struct iovec *v = &m->msg_iov[i];
		if (v->iov_len > sizeof(w->request) - len) {
			munmap(w, sizeof(*w));
			return fail(EMSGSIZE);
		}
		if (v->iov_len > 0)
			memcpy(w->request + len, v->iov_base, v->iov_len);
		len += v->iov_len;
	}
	const int had = errno;
	w->r.port_id = a->port_id;
	room = answer(w, fd, len);
	munmap(w, sizeof(*w));
	errno = had;
	return room ? (ssize_t)len : fail(ENOBUFS);
}

SHOWN ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	struct address a;

	if (any_netlink() && is_netlink(fd, &a))
		return send_netlink(fd, &a, m, flags);
	return NEXT_CALL(sendmsg)(fd, m, flags);
}

SHOWN ssize_t sendto(int fd, const void *b, size_t n, int flags, const struct sockaddr *to, socklen_t len)
{
	struct address a;

	if (!any_netlink() || !is_netlink(fd, &a))
		return NEXT_CALL(sendto)(fd, b, n, flags, to, len);
	struct iovec v = { .iov_base = (void *)b, .iov_len = n };
	const struct msghdr m = { .msg_name = (void *)to, .msg_namelen = len, .msg_iov = &v, .msg_iovlen = 1 };
	return send_netlink(fd, &a, &m, flags);
}

SHOWN ssize_t send(int fd, const void *b, size_t n, int flags)
{
	ssize_t result;

	if (any_netlink() && write_netlink(fd, b, n, &result))
		return result;
	return NEXT_CALL(send)(fd, b, n, flags);
}

bool write_netlink(int fd, const void *b, size_t n, ssize_t *result)
{
	struct address a;
	struct iovec v = { .iov_base = (void *)b, .iov_len = n };
	const struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	if (!is_netlink(fd, &a))
		return false;
	*result = send_netlink(fd, &a, &m, 0);
	return true;
}

static bool is_token(const struct token *t, long len)
{
	return len == sizeof(*t) && t->header.nlmsg_type == NLMSG_NOOP && t->magic == TOKEN_MAGIC;
}

// advance sends the next part of the dump at the front of the queue, if there is one; false if
// there is no memory.
static bool advance(int fd)
{
	struct token t;

	if (!is_token(&t, syscall(SYS_recvfrom, fd, &t, sizeof(t), MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC, NULL, NULL)))
		return true;
	struct work *w = borrow();
	if (w == NULL)
		return false;
	// Another thread may have taken it meanwhile: then this is the next message, which goes
	// back into the queue.
	const long n = syscall(SYS_recvfrom, fd, w->part, sizeof(w->part), MSG_DONTWAIT, NULL, NULL);
	memcpy(&t, w->part, sizeof(t));
	if (!is_token(&t, n)) {
		if (n > 0)
			send_part(fd, w->part, (size_t)n);
	} else if (go_on(w, fd, &t.dump) == DUMP_MORE) {
		keep_dump(fd, &t.dump);
	}
	munmap(w, sizeof(*w));
	return true;
}

// receive_netlink receives a message. The sender of all is the kernel.
static COLD ssize_t receive_netlink(int fd, struct msghdr *m, int flags)
{
	const int had = errno;

	if (!advance(fd))
		return -1;
	errno = had;
	struct msghdr own = *m;
	own.msg_name = NULL;
	own.msg_namelen = 0;
	const ssize_t n = NEXT_CALL(recvmsg)(fd, &own, flags);
	if (n < 0)
		return n;
	m->msg_controllen = own.msg_controllen;
	m->msg_flags = own.msg_flags;
	if (m->msg_name != NULL)
		copy_address(0, m->msg_name, &m->msg_namelen);
	return n;
}

SHOWN ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	struct address a;

	if (any_netlink() && is_netlink(fd, &a))
		return receive_netlink(fd, m, flags);
	return NEXT_CALL(recvmsg)(fd, m, flags);
}

// receive_from is recvfrom on a netlink socket; false if the descriptor is another file's.
static COLD bool receive_from(int fd, struct iovec *v, int flags, struct sockaddr *from, socklen_t *len, ssize_t *result)
{
	struct address a;
	struct msghdr m = { .msg_name = from, .msg_namelen = len == NULL ? 0 : *len, .msg_iov = v, .msg_iovlen = 1 };

	if (!is_netlink(fd, &a))
		return false;
	*result = receive_netlink(fd, &m, flags);
	if (*result >= 0 && from != NULL && len != NULL)
		*len = m.msg_namelen;
	return true;
}

#define RECEIVE(name, from, len, parameters, arguments) \
	SHOWN ssize_t name parameters \
	{ \
		ssize_t result; \
		if (any_netlink() && receive_from(fd, &(struct iovec){ b, n }, flags, from, len, &result)) \
			return result; \
		return NEXT_CALL(name) arguments; \
	}

ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);

RECEIVE(recv, NULL, NULL, (int fd, void *b, size_t n, int flags), (fd, b, n, flags))
RECEIVE(recvfrom, from, len, (int fd, void *b, size_t n, int flags, struct sockaddr *from, socklen_t *len), (fd, b, n, flags, from, len))

// Variants for programs compiled with _FORTIFY_SOURCE. The C library's function ends a program
// whose buffer is too small.
#define RECEIVE_CHK(name, from, len, parameters, arguments) \
	SHOWN ssize_t name parameters \
	{ \
		ssize_t result; \
		if (any_netlink() && n <= room && receive_from(fd, &(struct iovec){ b, n }, flags, from, len, &result)) \
			return result; \
		return NEXT_CALL(name) arguments; \
	}

RECEIVE_CHK(__recv_chk, NULL, NULL, (int fd, void *b, size_t n, size_t room, int flags), (fd, b, n, room, flags))
RECEIVE_CHK(__recvfrom_chk, from, len, (int fd, void *b, size_t n, size_t room, int flags, struct sockaddr *from, socklen_t *len),
	(fd, b, n, room, flags, from, len))
