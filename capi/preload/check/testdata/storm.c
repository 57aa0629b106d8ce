// storm has threads look into the image while the process forks and a timer
// interrupts all of them with a handler that looks there too. Each child does the
// same and ends. Its argument is the number of forks.

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEV "/sys/class/infiniband/softhca0"

enum { THREADS = 4, PATIENCE = 300 };

static atomic_int stop, wrong, handled;

// look makes the calls that a signal handler may make too.
static void look(void)
{
	char text[64];
	struct stat s;

	const int fd = open(DEV "/ports/1/hw_counters/sent_pkts", O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text)) != 5 || memcmp(text, "4711\n", 5) != 0)
		wrong++;
	if (fd >= 0)
		close(fd);
	if (stat("/dev/infiniband/uverbs0", &s) != 0 || !S_ISCHR(s.st_mode))
		wrong++;
	if (stat("/etc/passwd", &s) != 0 || !S_ISREG(s.st_mode))
		wrong++;
	if (readlink(DEV "/device/net/lo", text, sizeof(text)) != 17 || access(DEV "/node_guid", R_OK) != 0)
		wrong++;
}

static void interrupted(int number)
{
	const int was = errno;

	(void)number;
	look();
	handled++;
	errno = was;
}

static void *looker(void *unused)
{
	while (!stop) {
		look();
		DIR *d = opendir(DEV);
		if (d == NULL)
			wrong++;
		else
			closedir(d);
		free(realpath(DEV "/device", NULL));
	}
	return unused;
}

int main(int argc, char **argv)
{
	const struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never = { { 0, 0 }, { 0, 0 } };
	const int forks = argc == 2 ? atoi(argv[1]) : 0;
	pthread_t threads[THREADS];
	struct sigaction act;

	alarm(PATIENCE); // ends this program, and its children, if they hang
	memset(&act, 0, sizeof(act));
	act.sa_handler = interrupted;
	act.sa_flags = SA_RESTART;
	sigaction(SIGVTALRM, &act, NULL);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, looker, NULL) != 0)
			return 2;
	setitimer(ITIMER_VIRTUAL, &often, NULL);
	for (int i = 0; i < forks; i++) {
		const pid_t child = fork();
		if (child == 0) {
			alarm(PATIENCE);
			for (int k = 0; k < 20; k++)
				look();
			_exit(wrong != 0);
		}
		int status = 0;
		while (child < 0 || (waitpid(child, &status, 0) < 0 && errno == EINTR))
			if (child < 0)
				return 2;
		if (status != 0) {
			printf("child %d ended with status %#x\n", i, status);
			wrong++;
		}
	}
	while (handled == 0) // a signal at least
		look();
	stop = 1;
	setitimer(ITIMER_VIRTUAL, &never, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%d forks, %d signals, %d wrong\n", forks, handled, wrong);
	return wrong != 0;
}
