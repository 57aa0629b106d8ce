// A program loads libibverbs late, when its threads have used thread-local variables of libraries that are unloaded again. The
// checker then watches memory that the program frees. When a thread first uses a thread-local variable of libibverbs, the dynamic
// linker frees those of the unloaded libraries. The arguments are copies of a library that has such a variable.
#include "../program/rig.h"

#include <dlfcn.h>

enum { LIBRARIES = 64, THREADS = 4 };

static int libraries;
static pthread_barrier_t step;
static int *(*variables[LIBRARIES])(void);

static void wait_for_all(void)
{
	int code = pthread_barrier_wait(&step);
	must(code == 0 || code == PTHREAD_BARRIER_SERIAL_THREAD);
}

static void *uses(void *arg)
{
	wait_for_all(); // the libraries are loaded
	for (int i = 0; i < libraries; i++)
		*variables[i]() = i;
	for (int i = 0; i < libraries; i++)
		must(*variables[i]() == i);
	wait_for_all();
	wait_for_all(); // they are unloaded, and libibverbs is loaded
	char *volatile p = malloc(100);
	must(p != NULL && (p = realloc(p, 5000)) != NULL);
	free(p);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	void *loaded[LIBRARIES];
	alarm(60);
	libraries = argc - 1;
	must(libraries > 0 && libraries <= LIBRARIES);
	must(pthread_barrier_init(&step, NULL, THREADS + 1) == 0);
	for (int i = 0; i < THREADS; i++)
		must(pthread_create(&threads[i], NULL, uses, NULL) == 0);
	for (int i = 0; i < libraries; i++) {
		must((loaded[i] = dlopen(argv[1 + i], RTLD_NOW | RTLD_LOCAL)) != NULL);
		must((variables[i] = (int *(*)(void))dlsym(loaded[i], "variable")) != NULL);
	}
	wait_for_all();
	wait_for_all(); // the threads have used them
	for (int i = 0; i < libraries; i++)
		must(dlclose(loaded[i]) == 0);
	must(dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL) != NULL);
	wait_for_all();
	for (int i = 0; i < THREADS; i++)
		must(pthread_join(threads[i], NULL) == 0);
	puts("ok");
	return 0;
}
