// A server of memory and its client over librpma. The client reads the memory, overwrites it in each
// way that the library has, flushes it, and reads it again. The server checks its memory. Both
// exchange messages about what they found, and compare.
//
//	pool ADDRESS          the server, for one client
//	pool -s ADDRESS       with a shared receive queue, which has its own completion queue
//	pool -p ADDRESS       with memory that is a mapped file: the client also flushes for persistence
//	pool -c ADDRESS       the client
//	pool -c -n ADDRESS    the client, with a librpma that posts FLUSH and ATOMIC WRITE; older
//	                      versions post a READ and a WRITE in their place
//
// The headers of Debian 12 lack the number of a FLUSH's completion.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <librpma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// The memory is written in parts, with one request each; the last 8 bytes at once.
enum { SIZE = 1 << 20, PARTS = 8, PART = SIZE / PARTS, LAST = SIZE - 8, MESSAGE = 64, SLOTS = 4 };
enum { COMPLETES_FLUSH = 8 };
static const uint32_t immediate = 4711;

static const char port[] = "7474";

static unsigned char *memory, *other; // what is shared; what messages are in
static struct rpma_peer *peer;
static struct rpma_mr_local *shared, *messages;
static bool client, with_srq, with_file, posts_new;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

// ok ends the program if a call of librpma has failed.
static void ok(int code, const char *what)
{
	if (code != 0)
		die(what, rpma_err_2str(code));
}

static unsigned char byte(int kind, size_t at) { return (unsigned char)(at * 31 + at / 4096 + (size_t)kind * 101); }

static void fill(int kind)
{
	for (size_t i = 0; i < SIZE; i++)
		memory[i] = byte(kind, i);
}

// same ends the program if the memory is not what fill has made of it somewhere.
static void same(int kind, const char *what)
{
	for (size_t i = 0; i < SIZE; i++)
		if (memory[i] != byte(kind, i)) {
			fprintf(stderr, "%s: byte %zu is %d, want %d\n", what, i, memory[i], byte(kind, i));
			exit(1);
		}
}

// map maps a new file, on storage that survives a loss of power, and puts its name into path.
static unsigned char *map(char *path)
{
	int fd = mkstemp(path);
	void *at = MAP_FAILED;
	if (fd >= 0 && ftruncate(fd, SIZE) == 0)
		at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED || close(fd) != 0)
		die(path, "cannot be mapped");
	return at;
}

// begin finds the adapter of an address, and registers memory with it.
static void begin(const char *address)
{
	char path[] = "/var/tmp/pool-XXXXXX";
	struct ibv_context *context;
	ok(rpma_utils_get_ibv_context(address, client ? RPMA_UTIL_IBV_CONTEXT_REMOTE : RPMA_UTIL_IBV_CONTEXT_LOCAL, &context), "find the adapter");
	ok(rpma_peer_new(context, &peer), "make a peer");
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	if ((memory = with_file ? map(path) : aligned_alloc(page, SIZE)) == NULL || (other = aligned_alloc(page, page)) == NULL)
		die("allocate", "no memory");
	int both = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
	if (with_file)
		both |= RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
	ok(rpma_mr_reg(peer, memory, SIZE, both, &shared), "register");
	if (with_file && unlink(path) != 0) // registered: the name is no longer needed
		die(path, "cannot be removed");
	ok(rpma_mr_reg(peer, other, page, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &messages), "register");
}

static void end(void)
{
	ok(rpma_mr_dereg(&messages), "deregister");
	ok(rpma_mr_dereg(&shared), "deregister");
	ok(rpma_peer_delete(&peer), "delete the peer");
}

// next waits for a completion and ends the program if it is not what it should be.
static struct ibv_wc next(struct rpma_cq *cq, enum ibv_wc_opcode op, const char *what)
{
	struct ibv_wc wc;
	int code;
	while ((code = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
		ok(rpma_cq_wait(cq), "wait");
	ok(code, what);
	if (wc.status != IBV_WC_SUCCESS)
		die(what, ibv_wc_status_str(wc.status));
	if (wc.opcode != op) {
		fprintf(stderr, "%s: completion %d, want %d\n", what, wc.opcode, op);
		exit(1);
	}
	return wc;
}

static void expect(struct rpma_conn *conn, enum rpma_conn_event want)
{
	enum rpma_conn_event got;
	ok(rpma_conn_next_event(conn, &got), "take an event");
	if (got != want)
		die(rpma_utils_conn_event_2str(want), rpma_utils_conn_event_2str(got));
}

static struct rpma_conn_cfg *configuration(void)
{
	struct rpma_conn_cfg *cfg;
	ok(rpma_conn_cfg_new(&cfg), "make a configuration");
	ok(rpma_conn_cfg_set_sq_size(cfg, 2 * PARTS), "set the send queue's size");
	ok(rpma_conn_cfg_set_cq_size(cfg, 2 * PARTS), "set the completion queue's size");
	ok(rpma_conn_cfg_set_rcq_size(cfg, SLOTS), "set the size of the completion queue of receives");
	return cfg;
}

// shared_queue gives a server's connections one receive queue.
static struct rpma_srq *shared_queue(struct rpma_conn_cfg *cfg)
{
	struct rpma_srq *srq;
	struct rpma_srq_cfg *c;
	ok(rpma_srq_cfg_new(&c), "configure a shared queue");
	ok(rpma_srq_cfg_set_rcq_size(c, SLOTS), "set its completion queue's size");
	ok(rpma_srq_new(peer, c, &srq), "make a shared queue");
	ok(rpma_srq_cfg_delete(&c), "delete its configuration");
	ok(rpma_conn_cfg_set_srq(cfg, srq), "use the shared queue");
	return srq;
}

// describe writes the descriptor of the memory, followed by the descriptor of this peer, which says
// whether a WRITE and a FLUSH make data persistent. It returns the length of both.
static size_t describe(unsigned char description[UINT8_MAX])
{
	struct rpma_peer_cfg *cfg;
	size_t length, more;
	ok(rpma_peer_cfg_new(&cfg), "make a configuration of the peer");
	ok(rpma_peer_cfg_set_direct_write_to_pmem(cfg, with_file), "set what the peer can do");
	ok(rpma_mr_get_descriptor_size(shared, &length), "ask for the descriptor's size");
	ok(rpma_peer_cfg_get_descriptor_size(cfg, &more), "ask for the size of the peer's descriptor");
	if (length + more > UINT8_MAX)
		die("the descriptors", "too long");
	ok(rpma_mr_get_descriptor(shared, description), "describe the memory");
	ok(rpma_peer_cfg_get_descriptor(cfg, description + length), "describe the peer");
	ok(rpma_peer_cfg_delete(&cfg), "delete the configuration of the peer");
	return length + more;
}

// understand returns the server's memory from the server's private data, and tells the
// connection what the server can do.
static struct rpma_mr_remote *understand(struct rpma_conn *conn)
{
	struct rpma_conn_private_data data;
	struct rpma_mr_remote *remote;
	struct rpma_peer_cfg *cfg;
	size_t length, size;
	ok(rpma_conn_get_private_data(conn, &data), "get the private data");
	ok(rpma_mr_get_descriptor_size(shared, &length), "ask for the descriptor's size");
	if (data.len <= length)
		die("the private data", "too short");
	ok(rpma_mr_remote_from_descriptor(data.ptr, length, &remote), "understand the descriptor");
	ok(rpma_peer_cfg_from_descriptor((char *)data.ptr + length, data.len - length, &cfg), "understand the peer's descriptor");
	ok(rpma_conn_apply_remote_peer_cfg(conn, cfg), "apply the peer's configuration");
	ok(rpma_peer_cfg_delete(&cfg), "delete the configuration of the peer");
	ok(rpma_mr_remote_get_size(remote, &size), "ask for the memory's size");
	if (size != SIZE)
		die("the memory", "other size");
	return remote;
}

static void serve(const char *address)
{
	struct rpma_ep *ep;
	struct rpma_conn_req *req;
	struct rpma_conn *conn;
	struct rpma_cq *cq, *rcq;
	struct rpma_srq *srq = NULL;
	unsigned char description[UINT8_MAX];
	fill(1);
	struct rpma_conn_private_data data = {.ptr = description, .len = (uint8_t)describe(description)};
	struct rpma_conn_cfg *cfg = configuration();
	if (with_srq)
		srq = shared_queue(cfg);
	ok(rpma_ep_listen(peer, address, port, &ep), "listen");
	ok(rpma_ep_next_conn_req(ep, cfg, &req), "take a request");
	for (int i = 0; i < 2; i++) {
		if (with_srq)
			ok(rpma_srq_recv(srq, messages, (size_t)i * MESSAGE, MESSAGE, NULL), "post a receive to the shared queue");
		else
			ok(rpma_conn_req_recv(req, messages, (size_t)i * MESSAGE, MESSAGE, NULL), "post a receive");
	}
	ok(rpma_conn_req_connect(&req, &data, &conn), "accept");
	expect(conn, RPMA_CONN_ESTABLISHED);
	ok(rpma_conn_get_cq(conn, &cq), "get the completion queue");
	ok(with_srq ? rpma_srq_get_rcq(srq, &rcq) : rpma_conn_get_rcq(conn, &rcq), "get the completion queue of receives");
	struct ibv_wc wc = next(rcq, IBV_WC_RECV_RDMA_WITH_IMM, "the write with immediate data");
	if (!(wc.wc_flags & IBV_WC_WITH_IMM) || wc.imm_data != htonl(immediate))
		die("the write with immediate data", "other data");
	same(2, "what the client has written");
	next(rcq, IBV_WC_RECV, "the message");
	if (strcmp((char *)other + MESSAGE, "is it there?") != 0)
		die("the message", "other text");
	strcpy((char *)other, "it is");
	ok(rpma_send(conn, messages, 0, MESSAGE, RPMA_F_COMPLETION_ALWAYS, NULL), "send");
	next(cq, IBV_WC_SEND, "send");
	expect(conn, RPMA_CONN_CLOSED);
	ok(rpma_conn_disconnect(conn), "disconnect");
	ok(rpma_conn_delete(&conn), "delete the connection");
	ok(rpma_ep_shutdown(&ep), "shut down");
	ok(rpma_conn_cfg_delete(&cfg), "delete the configuration");
	if (with_srq)
		ok(rpma_srq_delete(&srq), "delete the shared queue");
}

// fetch reads the server's memory.
static void fetch(struct rpma_conn *conn, struct rpma_cq *cq, const struct rpma_mr_remote *remote)
{
	memset(memory, 0, SIZE);
	for (size_t at = 0; at < SIZE; at += PART)
		ok(rpma_read(conn, shared, at, remote, at, PART, RPMA_F_COMPLETION_ALWAYS, NULL), "read");
	for (int i = 0; i < PARTS; i++)
		next(cq, IBV_WC_RDMA_READ, "read");
}

// flush makes written bytes visible, and persistent if the server's memory is a file.
static void flush(struct rpma_conn *conn, struct rpma_cq *cq, struct rpma_mr_remote *remote)
{
	enum ibv_wc_opcode op = posts_new ? (enum ibv_wc_opcode)COMPLETES_FLUSH : IBV_WC_RDMA_READ;
	int types;
	ok(rpma_mr_remote_get_flush_type(remote, &types), "ask for the types of flush");
	ok(rpma_flush(conn, remote, 0, SIZE, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, NULL), "flush");
	next(cq, op, "flush");
	int code = rpma_flush(conn, remote, 0, SIZE, RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS, NULL);
	if (types & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT) {
		ok(code, "flush for persistence");
		next(cq, op, "flush for persistence");
	} else if (code != RPMA_E_NOSUPP)
		die("flush for persistence of memory that is not a file", code == 0 ? "posted" : rpma_err_2str(code));
}

// put writes the server's memory: a part with immediate data, the others without, and the
// last bytes by an atomic write.
static void put(struct rpma_conn *conn, struct rpma_cq *cq, struct rpma_mr_remote *remote)
{
	unsigned char last[8];
	fill(2);
	memcpy(last, memory + LAST, sizeof last);
	memset(memory + LAST, 0, sizeof last);
	for (size_t at = PART; at < SIZE; at += PART)
		ok(rpma_write(conn, remote, at, shared, at, PART, RPMA_F_COMPLETION_ON_ERROR, NULL), "write");
	flush(conn, cq, remote);
	ok(rpma_atomic_write(conn, remote, LAST, (const char *)last, RPMA_F_COMPLETION_ALWAYS, NULL), "write at once");
	next(cq, posts_new ? IBV_WC_ATOMIC_WRITE : IBV_WC_RDMA_WRITE, "write at once");
	ok(rpma_write_with_imm(conn, remote, 0, shared, 0, PART, RPMA_F_COMPLETION_ALWAYS, immediate, NULL), "write with immediate data");
	next(cq, IBV_WC_RDMA_WRITE, "write with immediate data");
}

static void use(const char *address)
{
	struct rpma_conn_req *req;
	struct rpma_conn *conn;
	struct rpma_cq *cq, *rcq;
	struct rpma_conn_cfg *cfg = configuration();
	ok(rpma_conn_req_new(peer, address, port, cfg, &req), "resolve");
	ok(rpma_conn_cfg_delete(&cfg), "delete the configuration");
	ok(rpma_conn_req_recv(req, messages, 0, MESSAGE, NULL), "post a receive");
	ok(rpma_conn_req_connect(&req, NULL, &conn), "connect");
	expect(conn, RPMA_CONN_ESTABLISHED);
	struct rpma_mr_remote *remote = understand(conn);
	ok(rpma_conn_get_cq(conn, &cq), "get the completion queue");
	ok(rpma_conn_get_rcq(conn, &rcq), "get the completion queue of receives");
	fetch(conn, cq, remote);
	same(1, "what the server has written");
	put(conn, cq, remote);
	fetch(conn, cq, remote);
	same(2, "what was written, and read again");
	strcpy((char *)other + MESSAGE, "is it there?");
	ok(rpma_send(conn, messages, MESSAGE, MESSAGE, RPMA_F_COMPLETION_ALWAYS, NULL), "send");
	next(cq, IBV_WC_SEND, "send");
	next(rcq, IBV_WC_RECV, "the answer");
	if (strcmp((char *)other, "it is") != 0)
		die("the answer", "other text");
	ok(rpma_conn_disconnect(conn), "disconnect");
	expect(conn, RPMA_CONN_CLOSED);
	ok(rpma_mr_remote_delete(&remote), "forget the memory");
	ok(rpma_conn_delete(&conn), "delete the connection");
	puts("memory and messages of librpma: ok");
}

int main(int argc, char **argv)
{
	for (int c; (c = getopt(argc, argv, "cnps")) != -1;)
		switch (c) {
		case 'c': client = true; break;
		case 'n': posts_new = true; break;
		case 'p': with_file = true; break;
		case 's': with_srq = true; break;
		default: return 2;
		}
	if (argc - optind != 1)
		die("usage", "pool [-s] [-p] ADDRESS, or pool -c [-n] ADDRESS");
	begin(argv[optind]);
	if (client)
		use(argv[optind]);
	else
		serve(argv[optind]);
	end();
	return 0;
}
