// What softhca run --nasty asks of the library itself.
#define _GNU_SOURCE
#include "recorded.h"

// The handles of objects are unique, some are larger than a signed number holds, and they are in no order.
static void nasty_numbers(void)
{
	enum { OBJECTS = 200 };
	struct ibv_pd *pd[OBJECTS];
	uint32_t handle[OBJECTS];
	int large = 0, falls = 0;
	find_recorder();
	rec->adapter.nasty_numbers = 7;
	struct ibv_context *c = open_first();
	for (int i = 0; i < OBJECTS; i++) {
		must((pd[i] = ibv_alloc_pd(c)) != NULL);
		handle[i] = pd[i]->handle;
		large += handle[i] > INT32_MAX;
		falls += i > 0 && handle[i] < handle[i - 1];
		for (int k = 0; k < i; k++)
			must(handle[k] != handle[i]);
	}
	must(large > OBJECTS / 4 && large < OBJECTS * 3 / 4);
	must(falls > OBJECTS / 4 && falls < OBJECTS * 3 / 4);
	struct ibv_pd *again = ibv_import_pd(c, handle[3]);
	must(again != NULL && again->handle == handle[3]);
	ibv_unimport_pd(again);
	for (int i = 0; i < OBJECTS; i++)
		must(ibv_dealloc_pd(pd[i]) == 0);
	must(ibv_close_device(c) == 0);
}

const struct scenario recorded_nasty[] = {
	{"recorded-nasty-numbers", nasty_numbers},
	{NULL, NULL},
};
