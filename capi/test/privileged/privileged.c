// A program that opens the adapter. Tests make it set-user-ID and start it as another user, who
// chooses its environment.
#define _GNU_SOURCE
#include <endian.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

extern const char *ibv_get_sysfs_path(void);

int main(int argc, char **argv)
{
	const char *redirected = "/sys/class/infiniband/bait";
	if (argc > 1 && strcmp(argv[1], "starved") == 0) {
		struct rlimit few = {6, 6}; // too few descriptors for an adapter
		setrlimit(RLIMIT_NOFILE, &few);
	}
	printf("secure %lu euid %d egid %d\n", getauxval(AT_SECURE), geteuid(), getegid());
	printf("sysfs %s, bait %s\n", ibv_get_sysfs_path(), access(redirected, F_OK) == 0 ? "seen" : "unseen");
	fflush(stdout);
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = list != NULL ? ibv_open_device(list[0]) : NULL;
	if (c == NULL) {
		perror("ibv_open_device");
		return 1;
	}
	union ibv_gid gid;
	struct ibv_pd *pd = ibv_alloc_pd(c);
	if (pd == NULL || ibv_query_gid(c, 1, 0, &gid) != 0) {
		perror("use the adapter");
		return 1;
	}
	printf("device %s on %d.%d.%d.%d guid %016llx\n", ibv_get_device_name(list[0]), gid.raw[12], gid.raw[13], gid.raw[14], gid.raw[15],
	       (unsigned long long)be64toh(ibv_get_device_guid(list[0])));
	return ibv_dealloc_pd(pd) != 0 || ibv_close_device(c) != 0;
}
