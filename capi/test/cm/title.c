// A program sets its title, as servers do: it moves its environment to the heap and overwrites
// the memory in which the kernel has put it. Afterwards it must open the same adapter as
// before.
#define _GNU_SOURCE
#include "cm.h"

#include <inttypes.h>

// overwrite fills the memory of the arguments and of the environment. getenv still returns the
// same values.
static void overwrite(void)
{
	enum { BEFORE = 45, LAST = 4 }; // fields of /proc/self/stat after the name and the state
	char text[4096], *at;
	unsigned long v[BEFORE + LAST] = {0};
	static char *moved[1024];
	size_t n = 0;
	for (; environ[n] != NULL; n++) {
		must(n + 1 < sizeof moved / sizeof *moved);
		moved[n] = strdup(environ[n]);
		must(moved[n] != NULL);
	}
	environ = moved;
	FILE *f = fopen("/proc/self/stat", "r");
	must(f != NULL);
	text[fread(text, 1, sizeof text - 1, f)] = 0;
	fclose(f);
	at = strrchr(text, ')') + 3; // after the state
	for (int i = 0; i < BEFORE + LAST - 1; i++)
		v[i] = strtoul(at, &at, 10);
	char *from = (char *)v[44], *to = (char *)v[47]; // arg_start and env_end
	must(from != NULL && to > from && to - from < 1 << 20);
	memset(from, 't', (size_t)(to - from));
	to[-1] = 0;
}

// shown returns the GUID that the adapter has in /sys.
static uint64_t shown(void)
{
	unsigned a, b, c, d;
	FILE *f = fopen("/sys/class/infiniband/softhca0/node_guid", "r");
	must(f != NULL && fscanf(f, "%4x:%4x:%4x:%4x", &a, &b, &c, &d) == 4);
	fclose(f);
	return (uint64_t)a << 48 | (uint64_t)b << 32 | (uint64_t)c << 16 | d;
}

static void titled(void)
{
	struct link l;
	overwrite();
	must(getenv("SOFTHCA_ADDR") != NULL && getenv("t") == NULL);
	uint64_t want = shown();
	link_up(&l, RDMA_PS_TCP);
	uint64_t got = be64toh(ibv_get_device_guid(l.client->verbs->device));
	if (got != want) {
		fprintf(stderr, "the GUID is %" PRIx64 ", in /sys it is %" PRIx64 "\n", got, want);
		exit(1);
	}
	link_down(&l);
}

const struct scenario titles[] = {{"title", titled}, {NULL, NULL}};
