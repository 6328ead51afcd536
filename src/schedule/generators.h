// Generators emit the compute actions of a step; lower() adds communication and the optimizer step. Each
// rejects numbers that it cannot schedule with a ConfigError that names the nearest valid choice. Weight
// gradients of a chunk are always in microbatch order, so that every schedule adds them up in the same order.
#pragma once

#include <string>
#include <vector>

#include "schedule/action.h"
#include "schedule/simulate.h"

namespace stoa::schedule {

// All forwards, then all backwards (Huang et al. 2019).
Schedule gpipe(int stages, int microbatches);
// One forward, one backward after a warm-up of stages - rank - 1 forwards (Narayanan et al. 2021, 2104.04473
// section 2.2).
Schedule one_forward_one_backward(int stages, int microbatches);
// Interleaved 1F1B (2104.04473 section 2.2): groups of `group` microbatches (0: as many as stages) pass
// through a rank's chunks in turn. The last group may be shorter than the others, but not than the number of
// stages.
Schedule interleaved(int stages, int chunks, int microbatches, int group = 0);
// Looped breadth-first (2211.05953): all microbatches through one chunk after the other.
Schedule breadth_first(int stages, int chunks, int microbatches);
// Zero bubble with the memory of 1F1B: weight gradients wait for `rank` backwards (2401.10241).
Schedule zero_bubble_h1(int stages, int microbatches);
// Zero bubble with about twice that memory: warm-up 2 (stages - rank) - 1 (2401.10241).
Schedule zero_bubble_h2(int stages, int microbatches);
// Two chunks per rank placed as a V, fixed order (2401.10241 section 6).
Schedule zero_bubble_v(int stages, int microbatches);
// ZB-H1 over the table of interleaved 1F1B.
Schedule interleaved_zero_bubble(int stages, int chunks, int microbatches, int group = 0);
// DualPipe cut in half: V placement, forward and backward of different microbatches overlapped. microbatches
// >= 2 stages.
Schedule dual_pipe_v(int stages, int microbatches);
// DualPipe (2412.19437 section 3.2.1): two copies of the model with half of the microbatches each, which
// enter at opposite ends. Stages and microbatches must be even, microbatches >= 2 stages.
Schedule dual_pipe(int stages, int microbatches);
// Building blocks of 2405.15362, period 6, compacted by the simulator but not reordered: half and a third of
// 1F1B's memory.
Schedule v_half(int stages, int microbatches);
Schedule v_min(int stages, int microbatches);

// Evaluation: every microbatch forward once, in groups as large as the number of ranks, chunk by chunk.
Schedule forward_only(const ChunkPlacement& placement, int microbatches);

inline constexpr int kMaxScheduleItems =
    4 << 20;  // stages x chunks x microbatches: a list that still fits in memory

struct ScheduleRequest {
  std::string name;
  int stages = 1;  // pipeline ranks
  int chunks = 0;  // per rank; 0: the schedule's default, 2 where it is free
  int microbatches = 1;
  int group = 0;  // interleaved: microbatches per group; 0: as many as stages
};
std::vector<std::string> schedule_names();
// Schedules with a single copy of the model, which are the ones that a run can use.
std::vector<std::string> run_schedule_names();
Schedule generate(ScheduleRequest request);
// The placement of the chunks, which is the same for any number of microbatches.
ChunkPlacement placement_of(ScheduleRequest request);

// Adds sends and receives, the reduction of gradients after a chunk's last backward and the optimizer step at
// the end (neither for a schedule without backward passes). Chunks before `trained_from` keep their places in
// the order, but run no backward pass. One linear order of all computations and transfers of the step is
// built from simulated start times (a transfer starts when its data is ready) and projected to the ranks. The
// first element of that order that has not run always has both ends ready, so the lists cannot deadlock even
// if every transfer blocks both ranks; and the order of transfers of a channel (source, destination, kind) is
// the same at both ends. Adjacent chunks on one rank need no transfer.
Schedule lower(Schedule compute, const Durations& durations = {}, int trained_from = 0);

}  // namespace stoa::schedule
