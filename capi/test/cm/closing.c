// What a program has closed or destroyed is gone when the call returns: programs that look
// for leaks count their descriptors then.
#include "cm.h"

#include <dirent.h>

// count returns how many descriptors are open.
static int count(void)
{
	int n = 0;
	DIR *dir = opendir("/proc/self/fd");
	must(dir != NULL);
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

static void is_back(int before)
{
	int after = count();
	if (after != before) {
		fprintf(stderr, "%d descriptors are open, %d were before the channel was\n", after, before);
		exit(1);
	}
}

static void channels(void)
{
	struct link l;
	link_up(&l, RDMA_PS_TCP); // librdmacm keeps the adapter open from here on
	link_down(&l);
	int before = count();
	for (int i = 0; i < 20; i++) {
		struct rdma_event_channel *ch = open_channel();
		must(count() > before);
		rdma_destroy_event_channel(ch);
		is_back(before);
		link_up(&l, RDMA_PS_TCP);
		link_down(&l);
		is_back(before);
	}
	// A copy of the descriptor keeps the channel open, and its listener.
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *id = listen_on(ch, RDMA_PS_TCP, PORT, 1);
	int copy = dup(ch->fd);
	must(copy >= 0 && close(ch->fd) == 0);
	struct rdma_event_channel *other = open_channel();
	struct rdma_cm_id *second = make_id(other, RDMA_PS_TCP);
	refused(bind_to(second, PORT), EADDRINUSE);
	must(close(copy) == 0);
	(void)id; // what librdmacm knows of it is of no use without the descriptor
	must(bind_to(second, PORT) == 0);
}

const struct scenario closings[] = {{"closing-channels", channels}, {NULL, NULL}};
