// What softhca run --nasty asks of the library: interrupted waits, and handles that are large and
// in no order. The engine reads the text of SOFTHCA_NASTY and passes the seeds.
#define _GNU_SOURCE
#include "softhca.h"

#include <fcntl.h>

// scramble returns another number for each number. It is the last step of splitmix64 (Steele, Lea, Flood).
static uint64_t scramble(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

// another_handle returns another handle for each handle: each of its steps can be undone.
uint32_t another_handle(uint64_t seed, uint32_t handle)
{
	uint64_t key = scramble(seed);
	uint32_t x = handle ^ (uint32_t)key;
	x = (x ^ x >> 16) * ((uint32_t)(key >> 32) | 1);
	x = (x ^ x >> 15) * 0x9e3779b1;
	return x ^ x >> 16;
}

// catches reports whether the program has a handler that would interrupt a system call of the calling
// thread. The library's and the engine's own handlers are of faults, or restart calls.
static bool catches(void)
{
	sigset_t blocked;
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction a;
		if (sigismember(engine_mask(), sig) != 1 || sigismember(&blocked, sig) == 1 || sigaction(sig, NULL, &a) != 0)
			continue;
		if (a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN && !(a.sa_flags & SA_RESTART) && !of_engine((uintptr_t)a.sa_handler))
			return true;
	}
	return false;
}

enum { INTERRUPTS_ONE_IN = 4 }; // calls that would wait

// interrupts_now reports whether a wait for an event of a channel fails as if a signal had
// interrupted it: never two waits of a channel in a row.
bool interrupts_now(struct channel *ch)
{
	struct device *d = device_of(ch->ibv.context);
	if (d->gone || fcntl(ch->ibv.fd, F_GETFL) & O_NONBLOCK || !catches())
		return false;
	uint64_t n = atomic_fetch_add(&d->choices, 1) + 1;
	if (scramble(d->info.nasty_signals + n * 0x9e3779b97f4a7c15) % INTERRUPTS_ONE_IN != 0)
		return atomic_store(&ch->interrupted, false), false;
	return !atomic_exchange(&ch->interrupted, true);
}
