// A server and its client over UCX, which connect by its listeners: that is, by rdma_cm if
// UCX finds no other way. The client sends messages of several sizes by tags; the server
// sends each back; the client compares.
//
//	meet ADDRESS          the server, for one client
//	meet -c ADDRESS       the client
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

enum { PORT = 13337, ROUNDS = 20 };

static const size_t sizes[] = {0, 1, 100, 8192, 65536, 1 << 20, 5 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0], MOST = 5 << 20 };

static ucp_context_h context;
static ucp_worker_h worker;
static bool over; // the peer has all it needs, and may be gone

// ok ends the program if a call of UCX has failed.
static void ok(ucs_status_t s, const char *what)
{
	if (s == UCS_OK || over)
		return;
	fprintf(stderr, "%s: %s\n", what, ucs_status_string(s));
	exit(1);
}

// finish waits for the end of an operation.
static void finish(ucs_status_ptr_t op, const char *what)
{
	ucs_status_t s = UCS_PTR_STATUS(op);
	if (UCS_PTR_IS_PTR(op)) {
		while ((s = ucp_request_check_status(op)) == UCS_INPROGRESS)
			ucp_worker_progress(worker);
		ucp_request_free(op);
	}
	ok(s, what);
}

static void failed(void *arg, ucp_ep_h ep, ucs_status_t s)
{
	(void)arg;
	(void)ep;
	ok(s, "the connection");
}

static void begin(void)
{
	ucp_params_t p = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
	ucp_worker_params_t w = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
	ucp_config_t *c;
	ok(ucp_config_read(NULL, NULL, &c), "read the configuration");
	ok(ucp_init(&p, c, &context), "begin");
	ucp_config_release(c);
	ok(ucp_worker_create(context, &w, &worker), "make a worker");
}

static void end(ucp_ep_h ep)
{
	finish(ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FLUSH), "close the connection");
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

static void take(void *buf, size_t n, ucp_tag_t tag)
{
	ucp_request_param_t p = {0};
	finish(ucp_tag_recv_nbx(worker, buf, n, tag, UINT64_MAX, &p), "receive");
}

static void give(ucp_ep_h ep, const void *buf, size_t n, ucp_tag_t tag)
{
	ucp_request_param_t p = {0};
	finish(ucp_tag_send_nbx(ep, buf, n, tag, &p), "send");
}

static ucp_tag_t tag_of(int round, size_t i) { return (ucp_tag_t)round << 8 | i; }

static void asked(ucp_conn_request_h r, void *arg) { *(ucp_conn_request_h *)arg = r; }

static void serve(const struct sockaddr_in *at)
{
	ucp_conn_request_h request = NULL;
	ucp_listener_h listener;
	char *buf = malloc(MOST);
	ucp_listener_params_t lp = {
		.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
		.sockaddr = {(const struct sockaddr *)at, sizeof *at},
		.conn_handler = {asked, &request},
	};
	ok(ucp_listener_create(worker, &lp, &listener), "listen");
	printf("listening\n");
	fflush(stdout);
	while (request == NULL)
		ucp_worker_progress(worker);
	ucp_ep_h ep;
	ucp_ep_params_t ep_params = {
		.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
		.conn_request = request, .err_handler = {failed, NULL}, .err_mode = UCP_ERR_HANDLING_MODE_PEER,
	};
	ok(ucp_ep_create(worker, &ep_params, &ep), "accept");
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < SIZES; i++) {
			take(buf, sizes[i], tag_of(round, i));
			over = round == ROUNDS - 1 && i == SIZES - 1; // the client ends when it has this one
			give(ep, buf, sizes[i], tag_of(round, i));
		}
	}
	ucp_listener_destroy(listener);
	free(buf);
	end(ep);
}

static void meet(const struct sockaddr_in *at)
{
	ucp_ep_h ep;
	char *out = malloc(MOST), *in = malloc(MOST);
	ucp_ep_params_t p = {
		.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
		.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER, .sockaddr = {(const struct sockaddr *)at, sizeof *at},
		.err_handler = {failed, NULL}, .err_mode = UCP_ERR_HANDLING_MODE_PEER,
	};
	ok(ucp_ep_create(worker, &p, &ep), "connect");
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < SIZES; i++) {
			for (size_t j = 0; j < sizes[i]; j++)
				out[j] = (char)(j * 7 + (size_t)round + i);
			memset(in, 0, sizes[i]);
			give(ep, out, sizes[i], tag_of(round, i));
			take(in, sizes[i], tag_of(round, i));
			if (memcmp(in, out, sizes[i]) != 0) {
				fprintf(stderr, "%zu bytes came back changed\n", sizes[i]);
				exit(1);
			}
		}
	}
	over = true;
	printf("%d messages came back: ok\n", ROUNDS * SIZES);
	end(ep);
	free(in);
	free(out);
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	bool client = argc == 3 && strcmp(argv[1], "-c") == 0;
	if ((argc != 2 && !client) || inet_pton(AF_INET, argv[argc - 1], &at.sin_addr) != 1) {
		fprintf(stderr, "usage: %s [-c] ADDRESS\n", argv[0]);
		return 2;
	}
	begin();
	if (client)
		meet(&at);
	else
		serve(&at);
	return 0;
}
