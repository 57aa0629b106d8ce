// Memory faults of the engine. The engine reads and writes the program's memory; if that memory
// is no longer mapped, the engine has to handle the fault, and its operation fails. A handler
// that the program sets after the engine was loaded (as crash reporters do) would get these
// faults, but must get only the program's own. So the library's handler stays in front of the
// program's: the preload library reports when the program sets one, and without it keep_faults
// looks from time to time. The library's handler is installed even if the program has none: a
// process that crashes disconnects first, as the kernel would do for it.
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <ucontext.h>

static const int signals_of[] = {SIGSEGV, SIGBUS};
enum { SIGNALS = sizeof signals_of / sizeof *signals_of };

typedef int sigaction_call(int, const struct sigaction *, struct sigaction *);

// told is set if the preload library reports handlers; set is then the next sigaction after the
// preload library's.
static sigaction_call *set = sigaction;
static _Atomic bool told;

static __thread bool loads; // this thread is loading an engine, which sets its own handlers

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; // held while what follows changes
static struct sigaction engines[SIGNALS];
static struct sigaction before[SIGNALS]; // the handlers before the engine was loaded
static uintptr_t text, text_end; // of the engine that was loaded last

// The program's handlers, in two places: while one changes, a running handler reads the other.
static struct sigaction programs[SIGNALS][2];
static _Atomic int place[SIGNALS];
static _Atomic bool spent[SIGNALS]; // a handler to be called once (SA_RESETHAND) has been called

static void lock(sigset_t *old)
{
	sigset_t all;
	sigfillset(&all); // a handler may itself set handlers
	pthread_sigmask(SIG_SETMASK, &all, old);
	mutex_lock(FAULTS_LOCK, &mu);
}

static void unlock(const sigset_t *old)
{
	mutex_unlock(&mu);
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

void faults_in_child(void) { pthread_mutex_init(&mu, NULL); }

// sets_engines reports whether the calling thread sets the engine's handlers, not the program's.
bool sets_engines(void) { return loads; }

#if defined(__x86_64__) || defined(__aarch64__)
enum { TELLS_PLACE = 1 };
#else
enum { TELLS_PLACE = 0 };
#endif

// interrupted returns the instruction at which a signal interrupted the thread, 0 if that is
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

bool of_engine(uintptr_t pc) { return pc >= text && pc < text_end; }

static void call(const struct sigaction *a, int sig, siginfo_t *info, void *u)
{
	if (a->sa_flags & SA_SIGINFO)
		a->sa_sigaction(sig, info, u);
	else
		a->sa_handler(sig);
}

// recurs reports whether the signal comes again when the handler returns. A fault does. A
// signal that was sent does not, nor does a memory error that is only announced.
static bool recurs(int sig, const siginfo_t *info)
{
	return info->si_code > 0 && !(sig == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

// call_program handles a signal as the program has requested.
static void call_program(int i, int sig, siginfo_t *info, void *u)
{
	const struct sigaction *a = &programs[i][place[i]];
	bool again = recurs(sig, info);
	if (a->sa_handler == SIG_IGN && !again)
		return;
	bool none = a->sa_handler == SIG_DFL || a->sa_handler == SIG_IGN; // a fault kills the process even if it is ignored
	if (none || (a->sa_flags & SA_RESETHAND && atomic_exchange(&spent[i], true))) {
		static const struct sigaction deadly = {.sa_handler = SIG_DFL};
		check_crashes();
		leave_peers();
		set(sig, &deadly, NULL);
		if (!again)
			raise(sig);
		return;
	}
	call(a, sig, info, u);
}

static __thread sigjmp_buf *guard; // of a thread that reads memory which may not be mapped
static __thread uintptr_t guarded_at;
static __thread size_t guarded_size;

bool guarded(void (*read)(void *arg), void *arg, const void *at, size_t n)
{
	sigjmp_buf here;
	if (!TELLS_PLACE)
		return false;
	if (sigsetjmp(here, 0) != 0)
		return false;
	guarded_at = (uintptr_t)at, guarded_size = n;
	guard = &here;
	atomic_signal_fence(memory_order_seq_cst);
	read(arg);
	atomic_signal_fence(memory_order_seq_cst);
	guard = NULL;
	return true;
}

static void on_fault(int sig, siginfo_t *info, void *u)
{
	if (guard != NULL && recurs(sig, info) && (uintptr_t)info->si_addr - guarded_at < guarded_size) {
		sigjmp_buf *to = guard;
		guard = NULL;
		pthread_sigmask(SIG_SETMASK, &((ucontext_t *)u)->uc_sigmask, NULL);
		siglongjmp(*to, 1);
	}
	static __thread bool inside; // the engine's handler has passed the signal on
	int i = sig == SIGBUS;
	// A signal that was sent goes to the program, whichever code the thread runs: the engine
	// would treat it as a crash of its own.
	if (!recurs(sig, info) || !of_engine(interrupted(u)) || inside) {
		call_program(i, sig, info, u);
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

// keep installs the library's handler in place of the program's. The lock is held.
static int keep(int i, const struct sigaction *act)
{
	int next = !place[i];
	programs[i][next] = *act;
	place[i] = next;
	spent[i] = false;
	struct sigaction ours = *act;
	ours.sa_sigaction = on_fault;
	ours.sa_flags = (act->sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO | SA_ONSTACK;
	return set(signals_of[i], &ours, NULL);
}

// handler_set replaces sigaction for the fault signals. The program reads back the handlers
// that it has set itself.
static int handler_set(int sig, const struct sigaction *act, struct sigaction *old)
{
	int i = sig == SIGBUS;
	struct sigaction now;
	sigset_t mask;
	if (loads)
		return set(sig, act, old);
	lock(&mask);
	int code = set(sig, NULL, &now);
	if (now.sa_sigaction == on_fault) {
		now = programs[i][place[i]];
		if (spent[i])
			now.sa_handler = SIG_DFL;
	}
	if (code == 0 && act != NULL)
		code = keep(i, act);
	if (code == 0 && old != NULL)
		*old = now;
	unlock(&mask);
	return code;
}

// engine_loading notes the handlers that are set before the engine sets its own. In the child
// of a fork the preload library reports those of the engine too: they are not the program's.
void engine_loading(void)
{
	loads = true;
	for (int i = 0; i < SIGNALS; i++)
		set(signals_of[i], NULL, &before[i]);
}

// come_first installs the library's handler in front of the engine's. The child of a fork
// inherits the library's handler, and the array programs has what the program set.
static void come_first(int i)
{
	sigset_t mask;
	lock(&mask);
	struct sigaction was = before[i].sa_sigaction == on_fault ? programs[i][place[i]] : before[i];
	bool used = before[i].sa_sigaction == on_fault && spent[i];
	keep(i, &was);
	spent[i] = used;
	unlock(&mask);
}

// engine_loaded records the handlers that the engine has just set. On machines where the
// library can tell the engine's faults from the program's, it installs the library's handler in
// front. Its argument is the engine's table of calls, NULL if there is no engine.
void engine_loaded(const void *in)
{
	loads = false;
	if (in == NULL)
		return;
	dl_iterate_phdr(find_text, (void *)in);
	for (int i = 0; i < SIGNALS; i++)
		set(signals_of[i], NULL, &engines[i]);
	for (int i = 0; i < SIGNALS && TELLS_PLACE; i++)
		come_first(i);
	void (*tell)(sigaction_call *, sigaction_call **) = dlsym(RTLD_DEFAULT, "softhca_tell_handlers");
	if (tell != NULL && !told) {
		tell(handler_set, &set);
		told = true;
	}
	seek_signals();
}

// keep_faults installs the library's handler in front of a handler that the program has set
// since.
void keep_faults(void)
{
	struct sigaction now;
	sigset_t mask;
	if (told)
		return;
	for (int i = 0; i < SIGNALS; i++) {
		if (set(signals_of[i], NULL, &now) != 0 || now.sa_sigaction == on_fault || now.sa_sigaction == engines[i].sa_sigaction)
			continue;
		lock(&mask);
		keep(i, &now);
		unlock(&mask);
	}
}
