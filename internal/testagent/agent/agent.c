// agent - a user of verbs that is controlled over TCP.
//
// It makes queue pairs, regions and work requests on the adapter under test
// exactly as its controller requests, and reports the results. It decides
// nothing by itself, so that one program serves every test of a peer.
//
//   gcc -O2 -Wall -Wextra -o agent agent.c -libverbs
//   gcc -O2 -Wall -Wextra -DWITH_ATOMIC_WRITE -o agent agent.c -libverbs    # rdma-core 44 and later
//   ./agent -d rxe0            # listens on port 18516, all addresses
//
// One controller at a time: a new connection that sends a request ends the one
// before, and destroys all its objects. Every host that can connect can make
// this machine send packets, and sees the memory of this program; let it listen
// (-b) only on a trusted network.
//
// A request is a line, COMMAND KEY=VALUE ..., at most 65535 bytes; each gets a
// line back, "ok KEY=VALUE ..." or "err ERRNO TEXT". Numbers are decimal or
// 0x..., names of states, operations and flags are those of the InfiniBand
// specification (RTR, RDMA_WRITE_WITH_IMM, SIGNALED|FENCE) or their numbers in
// verbs.h. "help" lists the commands with their keys.
#define _GNU_SOURCE
#include "agent.h"

#include <fcntl.h>
#include <unistd.h>

struct ibv_context *ctx;
uint8_t port = 1;

static struct ibv_context *open_device(const char *name)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_context *c = NULL;

	for (int i = 0; list && i < n && !c; i++)
		if (!name || !strcmp(name, ibv_get_device_name(list[i])))
			c = ibv_open_device(list[i]);
	if (!c) {
		fprintf(stderr, "agent: no device %s to open; ibv_devices lists them\n", name ? name : "");
		exit(1);
	}
	ibv_free_device_list(list);
	fcntl(c->async_fd, F_SETFL, fcntl(c->async_fd, F_GETFL) | O_NONBLOCK);
	return c;
}

static void usage(FILE *f)
{
	fprintf(f, "usage: agent [-d DEVICE] [-i PORT_OF_DEVICE] [-b ADDRESS] [-p TCP_PORT]\n"
		   "Drives the adapter for a controller over TCP (port 18516), one controller at a time.\n"
		   "  agent -d rxe0                    first port, listens on all addresses\n"
		   "  agent -d mlx5_0 -b 192.0.2.7     listens on one address only\n");
}

int main(int argc, char **argv)
{
	const char *device = NULL, *address_text = NULL, *service = "18516";
	int c;

	while ((c = getopt(argc, argv, "d:i:b:p:h")) != -1) {
		switch (c) {
		case 'd':
			device = optarg;
			break;
		case 'i':
			port = atoi(optarg);
			break;
		case 'b':
			address_text = optarg;
			break;
		case 'p':
			service = optarg;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind < argc || !port) {
		usage(stderr);
		return 2;
	}
	ctx = open_device(device);
	listen_on(address_text, service);
	printf("agent: %s serves port %s\n", ibv_get_device_name(ctx->device), service);
	fflush(stdout);
	return serve();
}
