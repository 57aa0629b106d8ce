#include "cm.h"

// here returns a port on the first of the program's own addresses.
struct sockaddr_in here(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	char first[INET_ADDRSTRLEN];
	const char *all = getenv("SOFTHCA_ADDR");
	snprintf(first, sizeof first, "%.*s", (int)strcspn(all, ","), all);
	must(inet_pton(AF_INET, first, &a.sin_addr) == 1);
	return a;
}

struct rdma_event_channel *open_channel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	must(ch != NULL);
	return ch;
}

struct rdma_cm_id *make_id(struct rdma_event_channel *ch, enum rdma_port_space ps)
{
	struct rdma_cm_id *id;
	must(rdma_create_id(ch, &id, NULL, ps) == 0);
	return id;
}

// destroy destroys an ID, and its queue pair if it has one.
void destroy(struct rdma_cm_id *id)
{
	if (id->qp != NULL)
		rdma_destroy_qp(id);
	must(rdma_destroy_id(id) == 0);
}

int bind_to(struct rdma_cm_id *id, int port)
{
	struct sockaddr_in a = here(port);
	return rdma_bind_addr(id, (struct sockaddr *)&a);
}

struct rdma_cm_id *listen_on(struct rdma_event_channel *ch, enum rdma_port_space ps, int port, int backlog)
{
	struct rdma_cm_id *id = make_id(ch, ps);
	must(bind_to(id, port) == 0);
	must(rdma_listen(id, backlog) == 0);
	return id;
}

// event_of waits for the next event, which must have the given type. The caller
// acknowledges it.
struct rdma_cm_event *event_of(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;
	must(rdma_get_cm_event(ch, &e) == 0);
	if (e->event != type) {
		fprintf(stderr, "the event is %s with status %d, want %s\n", rdma_event_str(e->event), e->status, rdma_event_str(type));
		exit(1);
	}
	return e;
}

// failure waits for an event of a type and with a status, acknowledges it and returns its ID.
struct rdma_cm_id *failure(struct rdma_event_channel *ch, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *e = event_of(ch, type);
	struct rdma_cm_id *id = e->id;
	must(e->status == status && rdma_ack_cm_event(e) == 0);
	return id;
}

// pass waits for an event of a type with status 0, acknowledges it and returns its ID.
struct rdma_cm_id *pass(struct rdma_event_channel *ch, enum rdma_cm_event_type type) { return failure(ch, type, 0); }

// quiet ends the program if an event is pending.
void quiet(struct rdma_event_channel *ch)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	must(poll(&p, 1, 0) == 0);
}

// begin_resolve resolves the address of an ID, which gets an event.
void begin_resolve(struct rdma_cm_id *id, int port)
{
	struct sockaddr_in to = here(port);
	must(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, TIMEOUT_MS) == 0);
}

// resolve resolves address and route of an ID with an event channel, so that it may connect.
void resolve(struct rdma_cm_id *id, int port)
{
	begin_resolve(id, port);
	must(pass(id->channel, RDMA_CM_EVENT_ADDR_RESOLVED) == id);
	must(rdma_resolve_route(id, TIMEOUT_MS) == 0);
	must(pass(id->channel, RDMA_CM_EVENT_ROUTE_RESOLVED) == id);
}

void add_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {.qp_type = id->qp_type, .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	must(rdma_create_qp(id, NULL, &a) == 0);
}

struct rdma_cm_id *ready(struct rdma_event_channel *ch, enum rdma_port_space ps, int port)
{
	struct rdma_cm_id *id = make_id(ch, ps);
	resolve(id, port);
	add_qp(id);
	return id;
}

// params returns the parameters of a connect or accept, with some private data.
struct rdma_conn_param params(const void *data, int n)
{
	return (struct rdma_conn_param){.private_data = data, .private_data_len = (uint8_t)n, .retry_count = 7, .rnr_retry_count = 7};
}

// ask connects an ID with the usual parameters.
void ask(struct rdma_cm_id *client)
{
	struct rdma_conn_param p = params(NULL, 0);
	must(rdma_connect(client, &p) == 0);
}

// establish accepts a client's request with a queue pair. Both IDs are on one channel.
void establish(struct rdma_cm_id *client, struct rdma_cm_id *server, struct rdma_conn_param p)
{
	struct rdma_event_channel *ch = server->channel;
	add_qp(server);
	must(rdma_accept(server, &p) == 0);
	struct rdma_cm_id *first = pass(ch, RDMA_CM_EVENT_ESTABLISHED), *second = pass(ch, RDMA_CM_EVENT_ESTABLISHED);
	must(first != second && (first == client || first == server) && (second == client || second == server));
}

// hang_up destroys the IDs of a connection that the client ends.
void hang_up(struct rdma_cm_id *client, struct rdma_cm_id *server, struct rdma_cm_id *listener)
{
	destroy(client);
	must(pass(server->channel, RDMA_CM_EVENT_DISCONNECTED) == server);
	destroy(server);
	destroy(listener);
}

// link_up connects the program with itself.
void link_up(struct link *l, enum rdma_port_space ps)
{
	l->ch = open_channel();
	l->listener = listen_on(l->ch, ps, PORT, 1);
	l->client = ready(l->ch, ps, PORT);
	ask(l->client);
	l->server = pass(l->ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	establish(l->client, l->server, params(NULL, 0));
}

void link_down(struct link *l)
{
	destroy(l->client);
	destroy(l->server);
	destroy(l->listener);
	quiet(l->ch);
	rdma_destroy_event_channel(l->ch);
}

// start runs a function in a child process. The program must not have opened an adapter
// before. The processes synchronize by say and hear.
pid_t start(void (*child)(int to_parent, int from_parent), int *from_child, int *to_child)
{
	int up[2], down[2];
	must(pipe(up) == 0 && pipe(down) == 0);
	pid_t pid = begin_child();
	if (pid == 0) {
		alarm(120);
		close(up[0]);
		close(down[1]);
		child(up[1], down[0]);
		exit(0);
	}
	close(up[1]);
	close(down[0]);
	*from_child = up[0], *to_child = down[1];
	return pid;
}

void say(int fd) { must(write(fd, "x", 1) == 1); }

void hear(int fd)
{
	char c;
	must(read(fd, &c, 1) == 1);
}

int main(int argc, char **argv)
{
	const struct scenario *all[] = {backlogs, privates, options, endpoints, moves, ports, groups, events, orders, parameters, threads, deaths, sixes, endings, titles, closings, unreads, wrongs};
	alarm(150); // bounds the wait for missing events
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		for (const struct scenario *s = all[i]; s->name != NULL; s++) {
			if (argc == 1) {
				printf("%s\n", s->name);
			} else if (strcmp(argv[1], s->name) == 0) {
				s->run();
				printf("ok\n");
				return 0;
			}
		}
	}
	return argc == 1 ? 0 : 2;
}
