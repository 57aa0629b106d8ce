// Accesses of peers to memory of a checked program that its adapters have refused. The engine reports them in its own
// threads, which must not wait, so a thread of the program records them with its next call.
#define _GNU_SOURCE
#include "check.h"

#include <stdio.h>

enum { REFUSALS = 32 };

static pthread_mutex_t refusals_mu = PTHREAD_MUTEX_INITIALIZER; // guards what follows
static struct kept {
	const struct device *dev;
	struct softhca_refusal r;
	uint64_t at;
} kept[REFUSALS];
static int keeps;

static _Atomic bool refusals; // keeps is not 0

void refusals_in_child(void) { pthread_mutex_init(&refusals_mu, NULL); }

// check_refusal keeps a refusal. If there are too many, it leaves out the newest: further ones mostly follow from the first.
void check_refusal(void *device, const struct softhca_refusal *r)
{
	mutex_lock(REFUSALS_LOCK, &refusals_mu);
	if (keeps < REFUSALS)
		kept[keeps++] = (struct kept){device, *r, now_ns()};
	mutex_unlock(&refusals_mu);
	atomic_store(&refusals, true);
}

// record records a refusal, with the calls that registered and deregistered the memory.
static void record(const struct kept *k)
{
	struct region in = {0};
	char when[64] = "";
	bool known = k->r.key != 0 && region_of(k->dev, k->r.key, &in);
	const struct call made = {"queue pair created here", qp_made(k->dev, k->r.qpn)};
	struct call calls[CALLS] = {made};
	if (known && in.ended != NULL) {
		calls[0] = (struct call){"deregistered here", in.ended}, calls[1] = (struct call){"registered here", in.made}, calls[2] = made;
		if (in.ended_ns <= k->at)
			snprintf(when, sizeof when, "; the program deregistered it %.1f ms before", (double)(k->at - in.ended_ns) / 1e6);
	} else if (known) {
		calls[0] = (struct call){"registered here", in.made}, calls[1] = made;
	}
	found(PEER_ACCESS_REFUSED, calls, "queue pair 0x%06x refused an access of its peer, queue pair 0x%06x of %s: %s%s", k->r.qpn, k->r.peer, k->r.remote, k->r.why, when);
}

void check_refusals(void)
{
	struct kept all[REFUSALS];
	if (!atomic_load_explicit(&refusals, memory_order_relaxed))
		return;
	mutex_lock(REFUSALS_LOCK, &refusals_mu);
	int n = keeps;
	memcpy(all, kept, (size_t)n * sizeof *all);
	keeps = 0;
	atomic_store(&refusals, false);
	mutex_unlock(&refusals_mu);
	for (int i = 0; i < n; i++)
		record(&all[i]);
}
