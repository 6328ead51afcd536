#include "foreign/checkpoint/write_megatron.h"

#include <fmt/format.h>

#include <string>

#include "base/file.h"
#include "ckpt/foreign_directory.h"
#include "ckpt/torch/pickle_writer.h"
#include "ckpt/torch/torch_writer.h"
#include "foreign/checkpoint/torch_dist_writing.h"

namespace stoa::foreign {
namespace {

using ckpt::torch::PickleWriter;

std::string common_text(const model::ModelSpec& spec, const CanonicalState& state,
                        std::int64_t expert_ranks) {
  PickleWriter out;
  out.begin_dict();
  out.text("args");
  write_megatron_args(out, spec, state.counters);
  out.text("checkpoint_version").real(3);
  out.text("iteration").integer(state.counters.iteration);
  out.text("content_metadata").begin_dict();
  out.text("singleton_local_shards")
      .boolean(false)
      .text("non_homogeneous_layers")
      .boolean(!layers_are_alike(spec));
  if (state.exp_avg) out.text("distrib_optim_sharding_type").text("fully_reshardable");
  out.text("chained_optim_avoid_prefix").boolean(true).end_dict();
  if (state.exp_avg) {
    out.text("optimizer");
    write_megatron_optimizer(out, spec, state, expert_ranks, "fully_reshardable");
  }
  out.end_dict();
  return ckpt::torch::torch_file_of(out.finish());
}

}  // namespace

MegatronExport write_megatron(const model::ModelSpec& spec, const CanonicalState& state,
                              const MegatronForm& form, const std::filesystem::path& output,
                              const ckpt::ExportProgress& progress) {
  require_expert_ranks(spec, form.expert_ranks);
  const std::string common = common_text(spec, state, form.expert_ranks);
  MegatronExport out;
  const std::string name = state.exp_avg ? fmt::format("iter_{:07}", state.counters.iteration) : "release";
  ckpt::write_complete(
      output,
      [&](const fs::path& staging) {
        const fs::path folder = staging / name;
        fs::create_directory(folder);
        out = write_torch_dist(spec, state, form, "", common, folder, progress);
        write_text(staging / ckpt::kMegatronTracker,
                   state.exp_avg ? std::to_string(state.counters.iteration) : "release");
      },
      [] {});
  return out;
}

}  // namespace stoa::foreign
