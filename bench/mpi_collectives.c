// Open MPI's own collectives, measured as `stoa bench collectives` measures Stoa's: the peer of bench/collectives.py.
//   mpicc -O2 bench/mpi_collectives.c -o collectives && mpirun -n 2 ./collectives SMALLEST LARGEST SECONDS
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

// Written: pages that are only read would all be the one page of zeros, which stays in the cache.
static float* zeros(long count) {
  volatile float* values = malloc(4 * count);
  for (long i = 0; i < count; ++i) values[i] = 0;
  return (float*)values;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const long smallest = atol(argv[1]), largest = atol(argv[2]);
  const double seconds = atof(argv[3]);
  const char* names[] = {"all_reduce", "all_gather", "reduce_scatter"};
  for (int operation = 0; operation < 3; ++operation)
    for (long bytes = smallest; bytes <= largest; bytes *= 4) {
      const int part = (int)(bytes / 4 / ranks > 0 ? bytes / 4 / ranks : 1), whole = part * ranks;
      float *all = zeros(whole), *mine = zeros(part);
      int count = 1;
      double* times = NULL;
      // The first call touches memory, the second says how many calls fit the time.
      for (int call = -2; call < count; ++call) {
        const double begin = MPI_Wtime();
        if (operation == 0) MPI_Allreduce(MPI_IN_PLACE, all, whole, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (operation == 1) MPI_Allgather(mine, part, MPI_FLOAT, all, part, MPI_FLOAT, MPI_COMM_WORLD);
        if (operation == 2) MPI_Reduce_scatter_block(all, mine, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        const double time = MPI_Wtime() - begin;
        if (call == -1) {
          double calls = seconds / (time > 1e-7 ? time : 1e-7);
          calls = calls < 9 ? 9 : calls > 20000 ? 20000 : calls;
          count = (int)calls;
          MPI_Allreduce(MPI_IN_PLACE, &count, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
          times = malloc(sizeof(double) * count);
        }
        if (call == -2) MPI_Barrier(MPI_COMM_WORLD);
        if (call >= 0) times[call] = time;
      }
      qsort(times, count, sizeof(double), ascending);
      if (rank == 0)
        printf("{\"operation\": \"%s\", \"bytes\": %ld, \"ranks\": %d, \"communicator\": \"Open MPI\", \"microseconds\": %.3f}\n",
               names[operation], bytes, ranks, times[count / 2] * 1e6);
      free(times), free(mine), free(all);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  MPI_Finalize();
  return 0;
}
