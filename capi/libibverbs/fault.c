// Faults of memory that the engine touches for the program, and which is not
// there any more, are the engine's to handle: its operation fails. A program that
// sets a handler of its own after the engine was loaded (as crash reporters do)
// would get them; it is to get its own faults only.
#define _GNU_SOURCE
#include "softhca.h"

#include <link.h>
#include <ucontext.h>

static const int signals_of[] = {SIGSEGV, SIGBUS};
enum { SIGNALS = sizeof signals_of / sizeof *signals_of };

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; // of who changes what follows
static struct sigaction engines[SIGNALS], programs[SIGNALS];
static uintptr_t text, text_end; // of the engine that was loaded last

// interrupted returns where the program was when a signal came, 0 if that is
// not known for the machine.
static uintptr_t interrupted(const ucontext_t *u)
{
#if defined(__x86_64__)
	return (uintptr_t)u->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (uintptr_t)u->uc_mcontext.pc;
#else
	(void)u;
	return 0;
#endif
}

static void call(const struct sigaction *a, int sig, siginfo_t *info, void *u)
{
	if (a->sa_flags & SA_SIGINFO) {
		a->sa_sigaction(sig, info, u);
	} else if (a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN) {
		a->sa_handler(sig);
	} else {
		// It happens again, and ends the program.
		static const struct sigaction deadly = {.sa_handler = SIG_DFL};
		sigaction(sig, &deadly, NULL);
	}
}

static void on_fault(int sig, siginfo_t *info, void *u)
{
	static __thread bool inside; // the engine's handler does not want it
	int i = sig == SIGBUS;
	uintptr_t pc = interrupted(u);
	if (pc < text || pc >= text_end || inside) {
		call(&programs[i], sig, info, u);
		return;
	}
	inside = true;
	call(&engines[i], sig, info, u);
	inside = false;
}

static int find_text(struct dl_phdr_info *info, size_t size, void *in)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_LOAD && (uintptr_t)in >= from && (uintptr_t)in < from + p->p_memsz) {
			for (int k = 0; k < info->dlpi_phnum; k++) {
				p = &info->dlpi_phdr[k];
				if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
					text = info->dlpi_addr + p->p_vaddr;
					text_end = text + p->p_memsz;
				}
			}
			return 1;
		}
	}
	return 0;
}

// engine_loaded notes the handlers that the engine has just set.
void engine_loaded(const void *in)
{
	dl_iterate_phdr(find_text, (void *)in);
	for (int i = 0; i < SIGNALS; i++)
		sigaction(signals_of[i], NULL, &engines[i]);
}

// keep_faults puts the engine's handler in front of one that the program has
// set since.
void keep_faults(void)
{
	pthread_mutex_lock(&mu);
	for (int i = 0; i < SIGNALS; i++) {
		struct sigaction now;
		if (sigaction(signals_of[i], NULL, &now) != 0 || now.sa_sigaction == on_fault || now.sa_sigaction == engines[i].sa_sigaction)
			continue;
		programs[i] = now;
		now.sa_sigaction = on_fault;
		now.sa_flags = (now.sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO | SA_ONSTACK;
		sigaction(signals_of[i], &now, NULL);
	}
	pthread_mutex_unlock(&mu);
}
