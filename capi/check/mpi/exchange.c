// Exchanges between the ranks of an MPI program, each of whose results is checked.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

// Sizes that messages have, in integers: in one packet, in many, and by rendezvous.
static const int sizes[] = {1, 1000, 100000};
enum { SIZES = sizeof sizes / sizeof *sizes, ROUNDS = 5 };

static int rank, ranks;

static int value(int from, int to, int round, int i) { return from * 1000003 + to * 1009 + round * 31 + i; }

static void want(const char *what, int n, int got, int expected)
{
	if (got == expected)
		return;
	fprintf(stderr, "rank %d: %s of %d integers: %d, want %d\n", rank, what, n, got, expected);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

// Each sends to the next, and receives from the one before.
static void ring(int n, int round, int *out, int *in)
{
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	for (int i = 0; i < n; i++)
		out[i] = value(rank, next, round, i), in[i] = -1;
	MPI_Sendrecv(out, n, MPI_INT, next, round, in, n, MPI_INT, before, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < n; i++)
		want("ring", n, in[i], value(before, rank, round, i));
}

static void all_reduce(int n, int round, int *out, int *in)
{
	for (int i = 0; i < n; i++)
		out[i] = rank + round + i % 1000, in[i] = -1;
	MPI_Allreduce(out, in, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < n; i++)
		want("all-reduce", n, in[i], ranks * (ranks - 1) / 2 + ranks * (round + i % 1000));
}

static void all_to_all(int n, int round, int *out, int *in)
{
	for (int to = 0; to < ranks; to++)
		for (int i = 0; i < n; i++)
			out[to * n + i] = value(rank, to, round, i), in[to * n + i] = -1;
	MPI_Alltoall(out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD);
	for (int from = 0; from < ranks; from++)
		for (int i = 0; i < n; i++)
			want("all-to-all", n, in[from * n + i], value(from, rank, round, i));
}

// Each writes into the memory of the next, and reads there what it has written.
static void one_sided(int n, int round, int *out, int *in)
{
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	MPI_Win win;
	for (int i = 0; i < n; i++)
		out[i] = value(rank, next, round, i), in[i] = -1;
	MPI_Win_create(in, (MPI_Aint)n * (MPI_Aint)sizeof *in, sizeof *in, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_fence(0, win);
	MPI_Put(out, n, MPI_INT, next, 0, n, MPI_INT, win);
	MPI_Win_fence(0, win);
	for (int i = 0; i < n; i++)
		want("put", n, in[i], value(before, rank, round, i)), out[i] = -1;
	MPI_Get(out, n, MPI_INT, next, 0, n, MPI_INT, win);
	MPI_Win_fence(0, win);
	for (int i = 0; i < n; i++)
		want("get", n, out[i], value(rank, next, round, i));
	MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int s = 0; s < SIZES; s++) {
		int n = sizes[s], each = n / ranks + 1;
		size_t room = (size_t)each * (size_t)ranks > (size_t)n ? (size_t)each * (size_t)ranks : (size_t)n;
		int *out = malloc(room * sizeof *out), *in = malloc(room * sizeof *in);
		if (out == NULL || in == NULL)
			MPI_Abort(MPI_COMM_WORLD, 1);
		for (int round = 0; round < ROUNDS; round++) {
			ring(n, round, out, in);
			all_reduce(n, round, out, in);
			all_to_all(each, round, out, in);
			one_sided(n, round, out, in);
		}
		free(out);
		free(in);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d ranks: ring, all-reduce, all-to-all, one-sided: ok\n", ranks);
	MPI_Finalize();
	return 0;
}
