// Counts the open descriptors of a process.
#include <dirent.h>
#include <sched.h>
#include <time.h>

static inline int count_descriptors(void)
{
	int n = 0;
	DIR *dir = opendir("/proc/self/fd");
	must(dir != NULL);
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

// others_wait confines all other threads to the calling thread's processor, where they run only
// while it sleeps. A descriptor that they close later than they should is then still open.
static inline void others_wait(void)
{
	DIR *dir = opendir("/proc/self/task");
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	must(dir != NULL && sched_setaffinity(0, sizeof one, &one) == 0);
	for (struct dirent *e; (e = readdir(dir)) != NULL;) {
		pid_t thread = atoi(e->d_name);
		if (thread == 0 || thread == gettid())
			continue;
		sched_setaffinity(thread, sizeof one, &one); // it may have ended
		sched_setscheduler(thread, SCHED_IDLE, &(struct sched_param){0});
	}
	closedir(dir);
}

enum { COUNTS_S = 20 };

// at_once ends the program unless the number of descriptors is back to before within COUNTS_S
// seconds: another thread of the engine may have one open for a moment. It reports whether the
// first count was right.
static inline bool at_once(int before)
{
	time_t end = time(NULL) + COUNTS_S;
	int first = count_descriptors(), n = first;
	while (n != before && time(NULL) < end) {
		sched_yield();
		n = count_descriptors();
	}
	if (n != before) {
		fprintf(stderr, "%d descriptors are open, %d were before\n", n, before);
		exit(1);
	}
	return first == before;
}

// mostly ends the program unless three quarters of n counts were right at once. A descriptor
// that is closed after the call returned would be late each time.
static inline void mostly(int right, int n)
{
	if (right * 4 < n * 3) {
		fprintf(stderr, "descriptors were closed late %d times of %d\n", n - right, n);
		exit(1);
	}
}
