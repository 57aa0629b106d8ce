// netlink makes calls on netlink sockets for RDMA.
//
//	netlink calls        makes each call, and reports what is not as with the kernel
//	netlink fuzz SEED N  sends N malformed requests, and checks that the answers are well formed
//	netlink torn N       lists queue pairs N times, whose QPN, peer and PD are one number
//	netlink churn MS     lists queue pairs for a time, and at least 100 times, of a process that connects each to the QPN with another lowest bit
//	netlink list OP RES  prints the numbers in the dump of a command, one a line, and the parts

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RDMA = 20, NLDEV = 5 << 10, GET = 1, PORT_GET = 5, SYS_GET = 6, RES_QP = 10, CHARDEV = 15, STAT_GET = 17 };
enum { DEV_INDEX = 1, DEV_NAME = 2, PORT_INDEX = 3, LQPN = 21, RQPN = 22, PDN = 60, TYPE = 69, NAME = 70, ABI = 71, DEVICE = 72, STAT_RES = 75 };

ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);

static int failures;

__attribute__((format(printf, 2, 3))) static void want(int ok, const char *format, ...)
{
	va_list list;

	if (ok)
		return;
	failures++;
	printf("not true: ");
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	printf(" (%s)\n", strerror(errno));
}

// request is a message with attributes.
struct request {
	struct nlmsghdr h;
	unsigned char attrs[256];
};

static struct request ask(int op, int flags)
{
	return (struct request){ .h = { .nlmsg_len = NLMSG_HDRLEN, .nlmsg_type = (uint16_t)(NLDEV | op), .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags), .nlmsg_seq = 77 } };
}

static void add(struct request *r, int type, const void *value, size_t len)
{
	unsigned char *at = (unsigned char *)r + NLMSG_ALIGN(r->h.nlmsg_len);

	*(struct nlattr *)at = (struct nlattr){ .nla_type = (uint16_t)type, .nla_len = (uint16_t)(NLA_HDRLEN + len) };
	memcpy(at + NLA_HDRLEN, value, len);
	r->h.nlmsg_len = (uint32_t)(NLMSG_ALIGN(r->h.nlmsg_len) + NLA_ALIGN(NLA_HDRLEN + len));
}

static void add32(struct request *r, int type, uint32_t value) { add(r, type, &value, sizeof(value)); }

static unsigned char answer[8192];
static uint32_t port_id;

// receive receives one datagram of well formed messages and returns its length, -1 if none waits.
static ssize_t receive(int fd)
{
	struct sockaddr_nl from = { 0 };
	struct iovec v = { answer, sizeof(answer) };
	struct msghdr m = { .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &v, .msg_iovlen = 1 };
	const ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);

	if (n < 0)
		return -1;
	want(m.msg_namelen == sizeof(from) && from.nl_family == AF_NETLINK && from.nl_pid == 0, "the kernel is the sender");
	want((m.msg_flags & MSG_TRUNC) == 0 && n <= 4096, "%zd bytes fit into a page", n);
	for (ssize_t at = 0; at < n;) {
		const struct nlmsghdr *h = (const struct nlmsghdr *)(answer + at);
		want(n - at >= NLMSG_HDRLEN && h->nlmsg_len >= NLMSG_HDRLEN && h->nlmsg_len <= n - at, "a message of %u of %zd bytes", h->nlmsg_len, n - at);
		if (failures > 0)
			return -1;
		want(h->nlmsg_pid == port_id, "for port ID %u, not %u", h->nlmsg_pid, port_id);
		at += NLMSG_ALIGN(h->nlmsg_len);
	}
	return n;
}

// attribute finds an attribute of the first message; NULL if it is not there.
static const void *attribute(int type)
{
	const struct nlmsghdr *h = (const struct nlmsghdr *)answer;

	for (uint32_t at = NLMSG_HDRLEN; at + NLA_HDRLEN <= h->nlmsg_len;) {
		const struct nlattr *a = (const struct nlattr *)(answer + at);
		if (a->nla_len < NLA_HDRLEN)
			break;
		if ((a->nla_type & NLA_TYPE_MASK) == type)
			return answer + at + NLA_HDRLEN;
		at += NLA_ALIGN(a->nla_len);
	}
	return NULL;
}

// error receives an acknowledgement and returns its error.
static int error(int fd)
{
	const struct nlmsghdr *h = (const struct nlmsghdr *)answer;
	const ssize_t n = receive(fd);

	if (n < NLMSG_HDRLEN || h->nlmsg_type != NLMSG_ERROR)
		return 9999;
	want(h->nlmsg_seq == 77 && ((const struct nlmsgerr *)NLMSG_DATA(h))->msg.nlmsg_seq == 77, "it acknowledges message 77");
	return -((const struct nlmsgerr *)NLMSG_DATA(h))->error;
}

static int errors(int fd, const struct request *r)
{
	want(send(fd, r, r->h.nlmsg_len, 0) == (ssize_t)r->h.nlmsg_len, "a request is sent");
	const int e = error(fd);
	want(receive(fd) < 0 && errno == EAGAIN, "nothing else comes");
	return e;
}

static int opened(int flags)
{
	struct sockaddr_nl own = { .nl_family = AF_NETLINK }, got;
	socklen_t len = sizeof(got);
	const int fd = socket(AF_NETLINK, SOCK_RAW | flags, RDMA), on = 1;

	want(fd >= 0, "a socket");
	want(setsockopt(fd, 270, NETLINK_CAP_ACK, &on, sizeof(on)) == 0 && setsockopt(fd, 270, NETLINK_EXT_ACK, &on, sizeof(on)) == 0, "options");
	want(bind(fd, (struct sockaddr *)&own, sizeof(own)) == 0, "bind");
	want(getsockname(fd, (struct sockaddr *)&got, &len) == 0 && len == sizeof(got) && got.nl_family == AF_NETLINK && got.nl_pid != 0, "an address");
	port_id = got.nl_pid;
	return fd;
}

static void sockets(void)
{
	const int fd = opened(SOCK_CLOEXEC | SOCK_NONBLOCK), other = opened(0), on = 1;
	struct sockaddr_nl a = { .nl_family = AF_NETLINK, .nl_pid = 4242 }, got;
	socklen_t len = sizeof(got);

	want(fcntl(fd, F_GETFD) == FD_CLOEXEC && (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0 && fcntl(other, F_GETFD) == 0, "flags");
	want(port_id != (uint32_t)getpid(), "two sockets have two port IDs");
	want(bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && getsockname(fd, (struct sockaddr *)&got, &len) == 0 && got.nl_pid == 4242, "the port ID 4242");
	want(fcntl(fd, F_GETFD) == FD_CLOEXEC && (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0, "flags after that");
	want(bind(fd, (struct sockaddr *)&a, 4) < 0 && errno == EINVAL, "a short address");
	a.nl_family = AF_INET;
	want(bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 && errno == EINVAL, "another family");
	want(setsockopt(fd, 270, 99, &on, sizeof(on)) < 0 && errno == ENOPROTOOPT, "an unknown option");
	want(setsockopt(fd, 270, NETLINK_CAP_ACK, &on, 1) < 0 && errno == EINVAL, "a short option");
	want(socket(AF_NETLINK, SOCK_STREAM, RDMA) < 0 && errno == ESOCKTNOSUPPORT, "no streams");
	const int route = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	len = sizeof(got);
	want(route >= 0 && getsockname(route, (struct sockaddr *)&got, &len) == 0 && got.nl_family == AF_NETLINK && got.nl_pid == 0, "other protocols are the kernel's");
	close(route);
	close(fd);
	close(other);
	want(close(fd) < 0 && errno == EBADF, "a closed descriptor");
}

// calls sends and receives by each call, on copies of a descriptor too.
static void calls(void)
{
	const int fd = opened(0), copy = dup(fd), high = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	struct request r = ask(SYS_GET, 0);
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK }, from;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct iovec v[2] = { { &r, 8 }, { (char *)&r + 8, NLMSG_HDRLEN - 8 } };
	struct msghdr m = { .msg_name = &kernel, .msg_namelen = sizeof(kernel), .msg_iov = v, .msg_iovlen = 2 };
	socklen_t len = sizeof(from);

	want(poll(&p, 1, 0) == 0 && recv(fd, answer, sizeof(answer), MSG_DONTWAIT) < 0 && errno == EAGAIN, "nothing waits");
	want(sendmsg(fd, &m, 0) == NLMSG_HDRLEN && poll(&p, 1, 0) == 1 && p.revents == POLLIN, "the descriptor is readable");
	want(recv(fd, NULL, 0, MSG_PEEK | MSG_TRUNC) == 48, "the length is shown before");
	want(recvfrom(copy, answer, sizeof(answer), 0, (struct sockaddr *)&from, &len) == 48 && len == sizeof(from) && from.nl_family == AF_NETLINK, "recvfrom a copy");
	want(sendto(copy, &r, NLMSG_HDRLEN, 0, (struct sockaddr *)&kernel, sizeof(kernel)) == NLMSG_HDRLEN && recv(high, answer, sizeof(answer), 0) == 48, "sendto and recv");
	close(fd);
	want(write(high, &r, NLMSG_HDRLEN) == NLMSG_HDRLEN && __recv_chk(copy, answer, sizeof(answer), sizeof(answer), 0) == 48, "write and __recv_chk");
	len = sizeof(from);
	want(send(high, &r, NLMSG_HDRLEN, 0) == NLMSG_HDRLEN && __recvfrom_chk(copy, answer, sizeof(answer), sizeof(answer), 0, (struct sockaddr *)&from, &len) == 48, "send and __recvfrom_chk");
	kernel.nl_pid = 1;
	want(sendmsg(copy, &m, 0) < 0 && errno == EPERM, "nothing for other processes");
	kernel.nl_family = AF_INET;
	want(sendmsg(copy, &m, 0) < 0 && errno == EINVAL, "an address of another family");
	want(send(copy, answer, sizeof(answer), 0) < 0 && errno == EMSGSIZE, "a request that is too long");
	const pid_t child = fork();
	if (child == 0)
		_exit(send(copy, &r, NLMSG_HDRLEN, 0) == NLMSG_HDRLEN ? 0 : 1);
	int status;
	want(waitpid(child, &status, 0) == child && status == 0 && recv(copy, answer, sizeof(answer), MSG_DONTWAIT) == 48, "a child asks, its parent reads");
	want(dup2(0, high) == high, "a descriptor is replaced");
	close(high);
	close(copy);
}

// answers checks what is answered.
static void answers(void)
{
	const int fd = opened(0);
	const struct nlmsghdr *h = (const struct nlmsghdr *)answer;
	struct request r = ask(GET, NLM_F_DUMP | NLM_F_ACK);
	struct stat s;

	want(send(fd, &r, r.h.nlmsg_len, 0) > 0 && receive(fd) > 0 && h->nlmsg_flags == NLM_F_MULTI && h->nlmsg_seq == 77, "a dump of devices");
	want(attribute(DEV_NAME) != NULL && strcmp(attribute(DEV_NAME), "softhca0") == 0, "softhca0");
	want(receive(fd) == 20 && h->nlmsg_type == NLMSG_DONE && receive(fd) < 0, "the end of the dump, and no acknowledgement");
	r = ask(CHARDEV, 0);
	add(&r, TYPE, "rdma_cm", 8);
	want(send(fd, &r, r.h.nlmsg_len, 0) > 0 && receive(fd) > 0 && h->nlmsg_flags == 0, "the connection manager");
	want(attribute(NAME) != NULL && strcmp(attribute(NAME), "rdma_cm") == 0 && *(const uint32_t *)attribute(ABI) == 4, "its name and ABI");
	want(stat("/dev/infiniband/rdma_cm", &s) == 0 && *(const uint32_t *)attribute(DEVICE) == s.st_rdev, "its number");
	r = ask(CHARDEV, 0);
	add(&r, TYPE, "uverbs", 7);
	want(errors(fd, &r) == EINVAL, "verbs of no device");
	add32(&r, DEV_INDEX, 0);
	want(send(fd, &r, r.h.nlmsg_len, 0) > 0 && receive(fd) > 0 && strcmp(attribute(NAME), "uverbs0") == 0, "the verbs");
	want(stat("/dev/infiniband/uverbs0", &s) == 0 && *(const uint32_t *)attribute(DEVICE) == s.st_rdev, "their number");
	r = ask(CHARDEV, 0);
	add(&r, TYPE, "umad", 5);
	want(errors(fd, &r) == ENOENT, "no other devices");
	r = ask(CHARDEV, 0);
	add(&r, TYPE, "rdma_cm", 7);
	want(errors(fd, &r) == EINVAL, "a name without an end");
	close(fd);
}

static void refusals(void)
{
	static const struct {
		int op, flags, dev, port, want;
	} cases[] = {
		{ 0, 0, -1, -1, EINVAL }, { 8, 0, -1, -1, EINVAL }, { 99, 0, -1, -1, EINVAL }, { GET, 0, -1, -1, EINVAL }, { GET, 0, 7, -1, EINVAL },
		{ GET, 0, 1 << 30, -1, EINVAL }, { PORT_GET, 0, 0, -1, EINVAL }, { PORT_GET, 0, 0, 0, EINVAL }, { PORT_GET, 0, 0, 2, EINVAL },
		{ RES_QP, 0, 0, 1, EINVAL }, { RES_QP, NLM_F_DUMP, -1, -1, EINVAL }, { RES_QP, NLM_F_DUMP, 7, -1, EINVAL }, { SYS_GET, NLM_F_DUMP, -1, -1, EINVAL },
		{ STAT_GET, 0, 0, -1, EINVAL }, { STAT_GET, NLM_F_DUMP, 0, 1, EINVAL }, { 24, 0, 0, -1, EINVAL },
		{ 2, 0, 0, -1, EOPNOTSUPP }, { 3, 0, -1, -1, EINVAL }, { 4, 0, 0, -1, EINVAL }, { 7, 0, -1, -1, EOPNOTSUPP },
		{ 16, 0, 0, 1, EOPNOTSUPP }, { 18, 0, 0, 1, EOPNOTSUPP }, { 19, NLM_F_DUMP, 0, 1, EINVAL }, { 21, 0, 0, 1, EINVAL },
	};
	const int fd = opened(0);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct request r = ask(cases[i].op, cases[i].flags);
		const int op = cases[i].op;
		const int administrative = op == 2 || op == 3 || op == 4 || op == 7 || op == 16 || op == 18 || op == 19 || op == 21;
		if (cases[i].dev >= 0)
			add32(&r, DEV_INDEX, (uint32_t)cases[i].dev);
		if (cases[i].port >= 0)
			add32(&r, PORT_INDEX, (uint32_t)cases[i].port);
		const int expected = administrative && geteuid() != 0 ? EPERM : cases[i].want, got = errors(fd, &r);
		want(got == expected, "case %zu: command %d gives %d, not %d", i, op, got, expected);
	}
	struct request r = ask(RES_QP, 0);
	add32(&r, DEV_INDEX, 0);
	add32(&r, LQPN, 0xfffff0);
	want(errors(fd, &r) == ENOENT, "a queue pair that is not there");
	r = ask(GET, 0);
	add(&r, DEV_INDEX, "", 1);
	want(errors(fd, &r) == EINVAL, "a short number");
	r = ask(SYS_GET, NLM_F_ACK);
	r.h.nlmsg_type = 1 << 10 | SYS_GET;
	want(errors(fd, &r) == EINVAL, "another client");
	r.h.nlmsg_flags = NLM_F_ACK;
	want(errors(fd, &r) == 0, "no request, only acknowledged");
	r.h.nlmsg_flags = NLM_F_ACK | NLM_F_REQUEST;
	r.h.nlmsg_type = NLMSG_NOOP;
	want(errors(fd, &r) == 0, "a message without a meaning is acknowledged");
	r.h.nlmsg_len = 15;
	want(send(fd, &r, 16, 0) == 16 && receive(fd) < 0, "a length below that of a header");
	r.h.nlmsg_len = 17;
	want(send(fd, &r, 16, 0) == 16 && receive(fd) < 0, "a length beyond the end");
	want(send(fd, &r, 15, 0) == 15 && send(fd, &r, 0, 0) == 0 && receive(fd) < 0, "less than a header");
	close(fd);
}

// flood asks without reading: the queue is bounded, and works again after it was read.
static void flood(void)
{
	const int fd = opened(0);
	struct request r = ask(SYS_GET, 0);
	int n = 0;

	while (n < 100000 && send(fd, &r, r.h.nlmsg_len, 0) > 0)
		n++;
	want(n > 10 && n < 100000 && errno == ENOBUFS, "%d answers wait", n);
	for (; n > 0 && receive(fd) > 0; n--)
		;
	want(n == 0 && receive(fd) < 0, "all of them come, but for %d", n);
	want(send(fd, &r, r.h.nlmsg_len, 0) > 0 && receive(fd) == 48, "the socket works again");
	close(fd);
}

static void fuzz(unsigned seed, int n)
{
	static unsigned char bytes[4096];
	const int fd = opened(0);

	srand(seed);
	for (int i = 0; i < n; i++) {
		const size_t len = (size_t)(rand() % (i % 50 == 0 ? (int)sizeof(bytes) : 96));
		for (size_t k = 0; k < len; k++)
			bytes[k] = (unsigned char)(rand() % 4 == 0 ? rand() : rand() % 8);
		struct nlmsghdr *h = (struct nlmsghdr *)bytes;
		if (rand() % 8 != 0 && len >= NLMSG_HDRLEN) {
			h->nlmsg_len = rand() % 4 == 0 ? (uint32_t)(rand() % 256) : (uint32_t)len;
			h->nlmsg_type = (uint16_t)(NLDEV | rand() % 30);
			h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | (rand() % 2 ? NLM_F_DUMP : 0) | (rand() % 2 ? NLM_F_ACK : 0));
		}
		for (size_t at = NLMSG_HDRLEN; at + 8 <= len && rand() % 8 != 0; at += 8) {
			*(struct nlattr *)(bytes + at) = (struct nlattr){ .nla_len = (uint16_t)(rand() % 8 ? 8 : rand() % 64), .nla_type = (uint16_t)(rand() % 4 ? 1 + rand() % 3 : rand() % 100) };
			*(uint32_t *)(bytes + at + 4) = (uint32_t)(rand() % 3);
		}
		send(fd, bytes, len, 0);
		while (receive(fd) > 0)
			;
		if (failures > 0)
			return;
	}
	close(fd);
}

static uint32_t seen[1 << 16];

// list prints the QPNs of a dump.
static void list(int op, uint32_t res)
{
	const int fd = opened(0);
	const struct nlmsghdr *h = (const struct nlmsghdr *)answer;
	struct request r = ask(op, NLM_F_DUMP);
	int parts = 0;

	add32(&r, DEV_INDEX, 0);
	add32(&r, PORT_INDEX, 1);
	if (res != 0)
		add32(&r, STAT_RES, res);
	want(send(fd, &r, r.h.nlmsg_len, 0) > 0, "a dump");
	for (; receive(fd) > 0 && h->nlmsg_type != NLMSG_DONE; parts++) {
		for (uint32_t at = NLMSG_HDRLEN; at + 12 <= h->nlmsg_len; at += 4) { // numbers have a header of 8 << 0 | type << 16
			const uint32_t *word = (const uint32_t *)(answer + at);
			if (word[0] == (8 | LQPN << 16) && word[1] < sizeof(seen) / sizeof(seen[0]))
				seen[word[1]]++;
		}
	}
	want(h->nlmsg_type == NLMSG_DONE && receive(fd) < 0, "the end");
	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
		for (uint32_t k = 0; k < seen[i]; k++)
			printf("%zu\n", i);
	printf("%d parts\n", parts);
	close(fd);
}

// torn lists queue pairs while their rows change.
static void torn(int n)
{
	const int fd = opened(0);
	const struct nlmsghdr *h = (const struct nlmsghdr *)answer;
	struct request r = ask(RES_QP, NLM_F_DUMP);
	long rows = 0;

	add32(&r, DEV_INDEX, 0);
	for (int i = 0; i < n && failures == 0; i++) {
		want(send(fd, &r, r.h.nlmsg_len, 0) > 0, "a dump");
		uint32_t qpn = 0, pd = 0;
		while (receive(fd) > 0 && h->nlmsg_type != NLMSG_DONE) {
			for (uint32_t at = NLMSG_HDRLEN; at + 12 <= h->nlmsg_len; at += 4) {
				const uint32_t *word = (const uint32_t *)(answer + at);
				if (word[0] == (8 | LQPN << 16))
					qpn = word[1];
				else if (word[0] == (8 | PDN << 16))
					pd = word[1];
				else if (word[0] == (8 | RQPN << 16) && ++rows > 0)
					want(qpn == pd && qpn == word[1], "one number: %u, %u, %u", qpn, pd, word[1]);
			}
		}
	}
	want(rows > n, "%ld rows", rows);
	close(fd);
}

// row is a queue pair in a dump. Attributes that are not there are 0.
struct row {
	uint32_t qpn, peer, pd, pid;
	uint8_t type, state;
};

enum { RES_QP_LIST = 19, TYPE_OF = 26, STATE = 27, PID = 28, RC = 2, RTR = 2, ERR = 6 };

// parse_row reads the attributes of a queue pair.
static struct row parse_row(const unsigned char *from, uint32_t len)
{
	struct row row = { 0 };

	for (uint32_t at = 0; at + NLA_HDRLEN <= len;) {
		const struct nlattr *a = (const struct nlattr *)(from + at);
		if (a->nla_len < NLA_HDRLEN || a->nla_len > len - at)
			break;
		const unsigned char *value = from + at + NLA_HDRLEN;
		switch (a->nla_type & NLA_TYPE_MASK) {
		case LQPN:
			memcpy(&row.qpn, value, sizeof(row.qpn));
			break;
		case RQPN:
			memcpy(&row.peer, value, sizeof(row.peer));
			break;
		case PDN:
			memcpy(&row.pd, value, sizeof(row.pd));
			break;
		case PID:
			memcpy(&row.pid, value, sizeof(row.pid));
			break;
		case TYPE_OF:
			row.type = *value;
			break;
		case STATE:
			row.state = *value;
		}
		at += NLA_ALIGN(a->nla_len);
	}
	return row;
}

// check_row checks a queue pair of the process that churns.
static void check_row(const struct row *q, const struct row *first)
{
	want(q->qpn != 0 && q->type == RC && q->pd == first->pd && q->pid == first->pid, "queue pair %u of type %u, domain %u, process %u", q->qpn, q->type, q->pd, q->pid);
	want(q->state <= ERR && (q->state < RTR ? q->peer == 0 : q->peer == (q->qpn ^ 1) || (q->state == ERR && q->peer == 0)),
	     "queue pair %u in state %u has the peer %u", q->qpn, q->state, q->peer);
}

// churn lists the queue pairs of a real adapter.
static void churn(long ms)
{
	const int fd = opened(0);
	const struct nlmsghdr *h = (const struct nlmsghdr *)answer;
	struct request r = ask(RES_QP, NLM_F_DUMP);
	struct row first = { 0 };
	struct timespec begun, now;
	long rows = 0, most = 0, dumps = 0;

	clock_gettime(CLOCK_MONOTONIC, &begun);
	add32(&r, DEV_INDEX, 0);
	do {
		long n = 0;
		want(send(fd, &r, r.h.nlmsg_len, 0) > 0, "a dump");
		while (receive(fd) > 0 && h->nlmsg_type != NLMSG_DONE) {
			const struct nlattr *all = (const struct nlattr *)((const unsigned char *)attribute(RES_QP_LIST) - NLA_HDRLEN);
			for (uint32_t at = NLA_HDRLEN; failures == 0 && at + NLA_HDRLEN <= all->nla_len; n++) {
				const struct nlattr *entry = (const struct nlattr *)((const unsigned char *)all + at);
				const struct row q = parse_row((const unsigned char *)entry + NLA_HDRLEN, entry->nla_len - NLA_HDRLEN);
				if (first.qpn == 0)
					first = q;
				check_row(&q, &first);
				at += NLA_ALIGN(entry->nla_len);
			}
		}
		want(h->nlmsg_type == NLMSG_DONE, "the end of a dump");
		rows += n;
		most = n > most ? n : most;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (failures == 0 && (++dumps < 100 || (now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000 < ms));
	printf("%ld dumps, %ld rows, up to %ld at a time\n", dumps, rows, most);
	close(fd);
}

static void *small(void *arg)
{
	(void)arg;
	answers();
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "fuzz") == 0) {
		fuzz((unsigned)strtoul(argv[2], NULL, 10), atoi(argv[3]));
	} else if (argc == 3 && strcmp(argv[1], "torn") == 0) {
		torn(atoi(argv[2]));
	} else if (argc == 3 && strcmp(argv[1], "churn") == 0) {
		churn(atol(argv[2]));
	} else if (argc == 4 && strcmp(argv[1], "list") == 0) {
		list(atoi(argv[2]), (uint32_t)atoi(argv[3]));
		return failures > 0;
	} else {
		pthread_attr_t attr;
		pthread_t thread;
		sockets();
		calls();
		answers();
		refusals();
		flood();
		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, 64 << 10);
		want(pthread_create(&thread, &attr, small, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread with a small stack");
	}
	printf("%d failures\n", failures);
	return failures > 0;
}
