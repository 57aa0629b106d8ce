#include "flicker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct flicker {
	pthread_t thread;
	_Atomic uint32_t *word;
	uint32_t one, other;
	atomic_bool stop;
};

static void *flick(void *arg)
{
	struct flicker *f = arg;

	while (!atomic_load(&f->stop)) {
		atomic_store(f->word, f->one);
		atomic_store(f->word, f->other);
	}
	return NULL;
}

struct flicker *flicker_start(uint32_t *word, uint32_t one, uint32_t other)
{
	struct flicker *f = calloc(1, sizeof *f);

	if (f == NULL)
		return NULL;
	f->word = (_Atomic uint32_t *)word, f->one = one, f->other = other;
	if (pthread_create(&f->thread, NULL, flick, f) != 0) {
		free(f);
		return NULL;
	}
	return f;
}

void flicker_stop(struct flicker *f)
{
	atomic_store(&f->stop, 1);
	pthread_join(f->thread, NULL);
	free(f);
}
