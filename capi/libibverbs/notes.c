// What the engine reports to the checker: accesses of peers that it has refused, and payload that has changed between two
// transmissions of a packet. It reports in its own threads, which must not wait, so a thread of the program records it with
// its next call.
#define _GNU_SOURCE
#include "check.h"

#include <stdio.h>

enum { REFUSALS = 32, CHANGES = 64 };

struct refusal {
	const struct device *dev;
	struct softhca_refusal r;
	uint64_t at;
};

struct change {
	const struct device *dev;
	uint32_t qpn, index;
};

// notes has the notes that no thread of the program has taken yet. When it is full, new notes are dropped: they mostly follow from the first.
struct notes {
	int refusals, changes;
	struct refusal refused[REFUSALS];
	struct change changed[CHANGES];
};

static pthread_mutex_t notes_mu = PTHREAD_MUTEX_INITIALIZER; // guards what follows
static struct notes notes;

static _Atomic bool waits; // there are notes

// What waits is about the parent.
void notes_in_child(void)
{
	pthread_mutex_init(&notes_mu, NULL);
	notes.refusals = notes.changes = 0;
	atomic_store(&waits, false);
}

void check_refusal(void *device, const struct softhca_refusal *r)
{
	tsan_hides();
	mutex_lock(NOTES_LOCK, &notes_mu);
	if (notes.refusals < REFUSALS)
		notes.refused[notes.refusals++] = (struct refusal){device, *r, now_ns()};
	mutex_unlock(&notes_mu);
	tsan_shows();
	atomic_store(&waits, true);
}

void check_change(void *device, uint32_t qpn, uint32_t index)
{
	tsan_hides();
	mutex_lock(NOTES_LOCK, &notes_mu);
	if (notes.changes < CHANGES)
		notes.changed[notes.changes++] = (struct change){device, qpn, index};
	mutex_unlock(&notes_mu);
	tsan_shows();
	atomic_store(&waits, true);
}

// record records a refusal, with the calls that registered and deregistered the memory.
static void record(const struct refusal *k)
{
	struct region in = {0};
	char when[64] = "";
	bool known = k->r.key != 0 && region_of(k->dev, k->r.key, &in);
	const struct call made = {"queue pair created here", qp_made(k->dev, k->r.qpn)};
	struct call calls[CALLS] = {made};
	if (known && in.ended != NULL && in.ended_ns <= k->at) {
		calls[0] = (struct call){"deregistered here", in.ended}, calls[1] = (struct call){"registered here", in.made}, calls[2] = made;
		snprintf(when, sizeof when, "; the program deregistered it %.1f ms before", (double)(k->at - in.ended_ns) / 1e6);
	} else if (known) {
		calls[0] = (struct call){"registered here", in.made}, calls[1] = made;
	}
	found(PEER_ACCESS_REFUSED, calls, "queue pair 0x%06x refused an access of its peer, queue pair 0x%06x of %s: %s%s", k->r.qpn, k->r.peer, k->r.remote, k->r.why, when);
}

// take_refusal and take_change take one note each. They report false if none waits.
static bool take_refusal(struct refusal *out)
{
	mutex_lock(NOTES_LOCK, &notes_mu);
	bool is = notes.refusals > 0;
	if (is)
		*out = notes.refused[--notes.refusals];
	mutex_unlock(&notes_mu);
	return is;
}

static bool take_change(struct change *out)
{
	mutex_lock(NOTES_LOCK, &notes_mu);
	bool is = notes.changes > 0;
	if (is)
		*out = notes.changed[--notes.changes];
	mutex_unlock(&notes_mu);
	return is;
}

void check_notes(void)
{
	struct refusal r;
	struct change c;
	if (!atomic_load_explicit(&waits, memory_order_relaxed))
		return;
	tsan_hides();
	atomic_store(&waits, false); // first: what comes now sets it again
	while (take_refusal(&r))
		record(&r);
	while (take_change(&c))
		request_changed(c.dev, c.qpn, c.index);
	tsan_shows();
}
