// Commands of /dev/infiniband/rdma_cm that are refused, written as librdmacm writes them.
#define _GNU_SOURCE
#include "refusals.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>

enum { NO_ID = 0xffffff };

// command writes a command with size bytes of payload and room bytes for the answer. It
// returns 0, or -1 on error.
static int command(int fd, uint32_t number, const void *payload, uint16_t size, uint16_t room)
{
	char b[sizeof(struct rdma_ucm_cmd_hdr) + 2048];
	struct rdma_ucm_cmd_hdr h = {number, size, room};
	memcpy(b, &h, sizeof h);
	memcpy(b + sizeof h, payload, size);
	return write(fd, b, sizeof h + size) == (ssize_t)(sizeof h + size) ? 0 : -1;
}

// REFUSE writes a command, whose structure is its last argument.
#define REFUSE(fd, name, condition, room, ...)                                                 \
	do {                                                                                   \
		__typeof__(__VA_ARGS__) c_ = __VA_ARGS__;                                      \
		NUMBER_OF("rdma_cm " #name, condition, command(fd, RDMA_USER_CM_CMD_##name, &c_, sizeof c_, room)); \
	} while (0)

static uint32_t new_id(int fd, uint16_t ps)
{
	struct rdma_ucm_create_id_resp r;
	struct rdma_ucm_create_id c = {.response = (uintptr_t)&r, .ps = ps};
	must(command(fd, RDMA_USER_CM_CMD_CREATE_ID, &c, sizeof c, sizeof r) == 0);
	return r.id;
}

static struct sockaddr_in6 address(const char *ip, uint16_t port)
{
	struct sockaddr_in6 a = {0};
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	must(inet_pton(AF_INET, ip, &v4.sin_addr) == 1);
	memcpy(&a, &v4, sizeof v4);
	return a;
}

// Commands with an ID that does not belong to the file.
static void refuse_no_id(int fd)
{
	static const char none[] = "an unknown ID";
	struct rdma_ucm_destroy_id_resp d;
	char room[512];
	uint64_t at = (uintptr_t)room;
	struct sockaddr_in6 a = address("127.0.0.1", 0);
	REFUSE(fd, DESTROY_ID, none, sizeof d, (struct rdma_ucm_destroy_id){.response = (uintptr_t)&d, .id = NO_ID});
	REFUSE(fd, BIND_IP, none, 0, (struct rdma_ucm_bind_ip){.addr = a, .id = NO_ID});
	REFUSE(fd, RESOLVE_IP, none, 0, (struct rdma_ucm_resolve_ip){.dst_addr = a, .id = NO_ID, .timeout_ms = 1});
	REFUSE(fd, RESOLVE_ROUTE, none, 0, (struct rdma_ucm_resolve_route){.id = NO_ID, .timeout_ms = 1});
	REFUSE(fd, CONNECT, none, 0, (struct rdma_ucm_connect){.id = NO_ID, .conn_param.valid = 1});
	REFUSE(fd, LISTEN, none, 0, (struct rdma_ucm_listen){.id = NO_ID});
	REFUSE(fd, ACCEPT, none, 0, (struct rdma_ucm_accept){.id = NO_ID, .conn_param.valid = 1});
	REFUSE(fd, REJECT, none, 0, (struct rdma_ucm_reject){.id = NO_ID, .reason = 28});
	REFUSE(fd, DISCONNECT, none, 0, (struct rdma_ucm_disconnect){.id = NO_ID});
	REFUSE(fd, INIT_QP_ATTR, none, sizeof room, (struct rdma_ucm_init_qp_attr){.response = at, .id = NO_ID, .qp_state = 1});
	REFUSE(fd, SET_OPTION, none, 0, (struct rdma_ucm_set_option){.optval = at, .id = NO_ID, .optlen = 1});
	REFUSE(fd, NOTIFY, none, 0, (struct rdma_ucm_notify){.id = NO_ID});
	REFUSE(fd, QUERY, none, sizeof room, (struct rdma_ucm_query){.response = at, .id = NO_ID});
	REFUSE(fd, QUERY_ROUTE, none, sizeof room, (struct rdma_ucm_query){.response = at, .id = NO_ID});
	REFUSE(fd, RESOLVE_ADDR, none, 0, (struct rdma_ucm_resolve_addr){.id = NO_ID, .timeout_ms = 1, .dst_size = 16, .dst_addr.ss_family = AF_INET});
	REFUSE(fd, LEAVE_MCAST, "an unknown group", sizeof d, (struct rdma_ucm_destroy_id){.response = (uintptr_t)&d, .id = NO_ID});
	REFUSE(fd, MIGRATE_ID, none, sizeof d, (struct rdma_ucm_migrate_id){.response = (uintptr_t)&d, .id = NO_ID, .fd = (uint32_t)fd});
}

static void refuse_commands(int fd)
{
	struct rdma_ucm_create_id_resp r;
	static const struct rdma_ucm_cmd_hdr longer = {RDMA_USER_CM_CMD_LISTEN, 100, 0};
	poison(&r, sizeof r);
	NUMBER_OF("rdma_cm", "an unknown command", command(fd, 1000, "", 0, 0));
	NUMBER_OF("rdma_cm", "GET_OPTION", command(fd, RDMA_USER_CM_CMD_GET_OPTION, "", 0, 0));
	NUMBER_OF("rdma_cm", "fewer bytes than a header", write(fd, &longer, 4));
	NUMBER_OF("rdma_cm", "fewer bytes than the header says", write(fd, &longer, sizeof longer));
	poison(&r, sizeof r);
	REFUSE(fd, CREATE_ID, "no room for the answer", 0, (struct rdma_ucm_create_id){.response = (uintptr_t)&r, .ps = RDMA_PS_TCP});
	REFUSE(fd, CREATE_ID, "an unknown port space", sizeof r, (struct rdma_ucm_create_id){.response = (uintptr_t)&r, .ps = 0x77});
	REFUSE(fd, GET_EVENT, "no room for the answer", 4, (struct rdma_ucm_get_event){.response = (uintptr_t)&r});
	must(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	REFUSE(fd, GET_EVENT, "no event, and the descriptor does not block", sizeof(struct rdma_ucm_event_resp), (struct rdma_ucm_get_event){.response = (uintptr_t)&r});
	must(fcntl(fd, F_SETFL, 0) == 0);
	REFUSE(fd, CREATE_ID, "an invalid pointer to the answer", sizeof r, (struct rdma_ucm_create_id){.response = 8, .ps = RDMA_PS_TCP});
}

// Commands for an ID that has no address yet.
static void refuse_fresh(int fd)
{
	static const char fresh[] = "an ID without an address";
	uint32_t id = new_id(fd, RDMA_PS_TCP);
	struct sockaddr_in6 strange = {.sin6_family = AF_UNIX}, far = address("192.0.2.1", 0), group = address("239.1.2.3", 0);
	struct rdma_ucm_create_id_resp r;
	char value[8] = {0}, room[512];
	uint64_t at = (uintptr_t)room;
	REFUSE(fd, BIND_IP, "an unknown address family", 0, (struct rdma_ucm_bind_ip){.addr = strange, .id = id});
	REFUSE(fd, BIND_IP, "an address that is not the host's", 0, (struct rdma_ucm_bind_ip){.addr = far, .id = id});
	REFUSE(fd, BIND, "a reserved field that is not 0", 0, (struct rdma_ucm_bind){.id = id, .addr_size = 16, .reserved = 1});
	REFUSE(fd, BIND, "a wrong size for the family", 0, (struct rdma_ucm_bind){.id = id, .addr_size = 3});
	REFUSE(fd, RESOLVE_IP, "an unknown address family", 0, (struct rdma_ucm_resolve_ip){.dst_addr = strange, .id = id, .timeout_ms = 1});
	REFUSE(fd, RESOLVE_ADDR, "a reserved field that is not 0", 0, (struct rdma_ucm_resolve_addr){.id = id, .timeout_ms = 1, .dst_size = 16, .reserved = 1});
	REFUSE(fd, RESOLVE_ROUTE, fresh, 0, (struct rdma_ucm_resolve_route){.id = id, .timeout_ms = 1});
	REFUSE(fd, CONNECT, fresh, 0, (struct rdma_ucm_connect){.id = id, .conn_param.valid = 1});
	REFUSE(fd, CONNECT, "parameters that are not valid", 0, (struct rdma_ucm_connect){.id = id});
	REFUSE(fd, ACCEPT, fresh, 0, (struct rdma_ucm_accept){.id = id, .conn_param.valid = 1});
	REFUSE(fd, REJECT, fresh, 0, (struct rdma_ucm_reject){.id = id, .reason = 28});
	REFUSE(fd, REJECT, "an undefined reason", 0, (struct rdma_ucm_reject){.id = id, .reason = 1});
	REFUSE(fd, DISCONNECT, fresh, 0, (struct rdma_ucm_disconnect){.id = id});
	REFUSE(fd, INIT_QP_ATTR, fresh, sizeof room, (struct rdma_ucm_init_qp_attr){.response = at, .id = id, .qp_state = 1});
	REFUSE(fd, INIT_QP_ATTR, "an undefined state", sizeof room, (struct rdma_ucm_init_qp_attr){.response = at, .id = id, .qp_state = 77});
	REFUSE(fd, NOTIFY, fresh, 0, (struct rdma_ucm_notify){.id = id, .event = IBV_EVENT_COMM_EST});
	REFUSE(fd, QUERY, "an unknown option", sizeof room, (struct rdma_ucm_query){.response = at, .id = id, .option = 9});
	REFUSE(fd, QUERY, "no room for the answer", 4, (struct rdma_ucm_query){.response = at, .id = id});
	REFUSE(fd, SET_OPTION, "an unknown level", 0, (struct rdma_ucm_set_option){.optval = (uintptr_t)value, .id = id, .level = 9, .optlen = 1});
	REFUSE(fd, SET_OPTION, "an unknown option", 0, (struct rdma_ucm_set_option){.optval = (uintptr_t)value, .id = id, .optname = 9, .optlen = 1});
	REFUSE(fd, SET_OPTION, "a wrong size for the option", 0, (struct rdma_ucm_set_option){.optval = (uintptr_t)value, .id = id, .optlen = 4});
	REFUSE(fd, SET_OPTION, "an invalid pointer to the value", 0, (struct rdma_ucm_set_option){.optval = 8, .id = id, .optlen = 1});
	REFUSE(fd, JOIN_IP_MCAST, fresh, sizeof r, (struct rdma_ucm_join_ip_mcast){.response = (uintptr_t)&r, .addr = group, .id = id});
	REFUSE(fd, JOIN_MCAST, "undefined flags", sizeof r, (struct rdma_ucm_join_mcast){.response = (uintptr_t)&r, .id = id, .addr_size = 16, .join_flags = 9});
}

static void refuse_bound(int fd)
{
	uint32_t id = new_id(fd, RDMA_PS_TCP), other = new_id(fd, RDMA_PS_TCP);
	char first[64], *comma;
	snprintf(first, sizeof first, "%s", getenv("SOFTHCA_ADDR"));
	if ((comma = strpbrk(first, ",;")) != NULL)
		*comma = 0;
	struct rdma_ucm_bind_ip b = {.addr = address(first, 7471), .id = id}, c = {.addr = address(first, 7471), .id = other};
	must(command(fd, RDMA_USER_CM_CMD_BIND_IP, &b, sizeof b, 0) == 0);
	REFUSE(fd, BIND_IP, "an ID that has an address", 0, b);
	REFUSE(fd, BIND_IP, "a port that another ID has", 0, c);
	REFUSE(fd, RESOLVE_ROUTE, "timeout 0", 0, (struct rdma_ucm_resolve_route){.id = id});
	struct rdma_ucm_listen l = {.id = id};
	must(command(fd, RDMA_USER_CM_CMD_LISTEN, &l, sizeof l, 0) == 0);
	REFUSE(fd, LISTEN, "an ID that listens", 0, l);
	REFUSE(fd, CONNECT, "an ID that listens", 0, (struct rdma_ucm_connect){.id = id, .conn_param.valid = 1});
	int second = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
	must(second >= 0);
	REFUSE(second, LISTEN, "an ID of another file", 0, l);
	must(close(second) == 0);
}

static void refused_cm(void)
{
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
	must(fd >= 0);
	setlinebuf(stdout);
	refuse_commands(fd);
	refuse_no_id(fd);
	refuse_fresh(fd);
	refuse_bound(fd);
	must(close(fd) == 0);
}

const struct scenario refusing_cm[] = {{"refused-cm", refused_cm}, {NULL, NULL}};
