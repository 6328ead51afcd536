// The teacher of a distillation on one rank: its chunks and weights, whole, in the layout of the student, and
// the normed rows that its head makes of the tokens of a step. It sees a step's microbatches before the
// student does, and its head gives the student's the logits of a piece of the tokens at a time
// (nn/teacher.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "infer/constants.h"
#include "infer/model_files.h"
#include "model/model_spec.h"
#include "nn/teacher.h"
#include "optim/parameter_store.h"
#include "run/layout.h"
#include "run/pipeline_memory.h"

namespace stoa::run {

struct TeacherOptions {
  model::ModelSpec model;
  nn::DistillationLoss loss;
};

class TeacherRank final : public nn::Teacher {
 public:
  struct Place {
    const Layout& layout;
    const parallel::ParallelContext& parallel;
    nn::Precision precision;
    std::int64_t tokens = 0;        // of a microbatch on a rank
    std::int64_t length = 0;        // of a row
    std::int64_t microbatches = 0;  // of the largest step
  };
  // Declares its memory. All must outlive this. ConfigError: the layout does not fit the teacher.
  TeacherRank(Arena& arena, const TeacherOptions& options, const Place& place, nn::OffloadRing& ring,
              const schedule::Schedule& evaluation);
  // After the arena was committed.
  void fill_constants(infer::Machine& machine);
  void load(infer::Machine& machine, const infer::ModelFiles& files);

  void logits(const nn::Pass& pass, TensorView rows, TensorView logits) const override;

  // Rows of microbatch m of a step; none on ranks without the head.
  TensorView rows(std::int64_t microbatch) const;
  const schedule::ChunkPlacement& placement() const { return placement_; }
  std::vector<LocalChunk>& chunks() { return local_; }
  Outbox& outbox() { return *outbox_; }
  optim::ParameterStore& parameters() { return *parameters_; }

 private:
  Arena& arena_;
  const TeacherOptions& options_;
  const std::int64_t tokens_, length_;
  schedule::ChunkPlacement placement_;
  nn::ParamList params_;
  std::vector<std::unique_ptr<model::Chunk>> chunks_;
  std::unique_ptr<optim::ParameterStore> parameters_;
  std::vector<infer::ChunkConstants> constants_;
  std::vector<LocalChunk> local_;
  std::unique_ptr<Outbox> outbox_;
  Arena::Id rows_;
};

}  // namespace stoa::run
