// Ranks, memory and precision.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "config/value.h"
#include "foreign/megatron/reading.h"

namespace stoa::foreign {

void MegatronReading::pipeline() {
  const std::int64_t stages = number("model.pipeline_model_parallel_size", 1);
  if (const auto method = value("pp-partition-method"); method && *method != "type:transformer") {
    if (*method == "type:transformer|embedding") {
      set("model.account_for_embedding_in_pipeline_split", "true");
      set("model.account_for_loss_in_pipeline_split", "true");
    } else {
      refuse("pp-partition-method",
             "expected type:transformer or type:transformer|embedding; or write model.pipeline_layers");
    }
  }
  std::int64_t counted = number("model.num_layers", 1);
  for (const char* key :
       {"model.account_for_embedding_in_pipeline_split", "model.account_for_loss_in_pipeline_split"})
    counted += is_set(key);
  if (const auto layout = value("pipeline-model-parallel-layout")) return stages_layout(*layout);
  if (const auto per = whole("num-layers-per-virtual-pipeline-stage"); per && stages > 1) {
    require<UsageError>(
        *per > 0 && counted % (stages * *per) == 0,
        "--from-megatron: --num-layers-per-virtual-pipeline-stage {}: {} layers on {} stages must be "
        "a multiple of it",
        *per, counted, stages);
    if (counted / stages / *per > 1)
      set("model.virtual_pipeline_model_parallel_size", std::to_string(counted / stages / *per));
  }
  if (const auto split = value("pipeline-model-parallel-split-rank"); split && kind_ == Kind::kT5)
    set("model.pipeline_model_parallel_split_rank", *split);
  uneven_stages();
}

// "Et*3|(tt|)*29,L": one letter a layer, stages apart by |, E the embedding, L the loss.
void MegatronReading::stages_layout(const std::string& layout) {
  std::string flat;
  const auto fail = [&](std::string_view what) {
    throw UsageError(fmt::format("--from-megatron: --pipeline-model-parallel-layout {}: {}", layout, what));
  };
  // Expands one item at `at`: a letter or a group in parentheses, then its factor.
  const auto expand = [&](auto&& self, std::string_view text) -> std::string {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      std::string item;
      if (text[at] == '(') {
        int depth = 0;
        std::size_t end = at;
        for (; end < text.size(); ++end) {
          depth += (text[end] == '(') - (text[end] == ')');
          if (depth == 0) break;
        }
        if (end == text.size()) fail("a parenthesis is not closed");
        item = self(self, text.substr(at + 1, end - at - 1));
        at = end + 1;
      } else {
        if (std::string_view("Etdm|L, ").find(text[at]) == std::string_view::npos)
          fail(fmt::format("'{}' is no kind of layer: expected E, t, L, | and their multiples", text[at]));
        if (text[at] != ',' && text[at] != ' ') item = text[at];
        ++at;
      }
      std::int64_t times = 1;
      if (at < text.size() && text[at] == '*') {
        std::size_t end = at + 1;
        while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
        times = config::parse_integer(text.substr(at + 1, end - at - 1)).value_or(-1);
        if (times < 0 || times > 10000) fail("expected a number after *");
        at = end;
      }
      for (std::int64_t i = 0; i < times; ++i) out += item;
    }
    return out;
  };
  flat = expand(expand, layout);
  std::vector<std::int64_t> layers(1, 0);
  std::int64_t further = 0;
  for (const char c : flat) {
    if (c == '|') layers.push_back(0);
    if (c == 't' || c == 'd') ++layers.back();
    further += c == 'm';
  }
  if (further != number("model.mtp_num_layers", 0))
    fail(fmt::format("{} layers of multi-token prediction (m), but --mtp-num-layers is {}", further,
                     number("model.mtp_num_layers", 0)));
  if (const auto last = flat.rfind('|'); last != std::string::npos && flat.find('m') < last)
    return refuse("pipeline-model-parallel-layout", "multi-token prediction (m) outside the last stage");
  const std::int64_t stages = number("model.pipeline_model_parallel_size", 1),
                     chunks = static_cast<std::int64_t>(layers.size());
  std::int64_t sum = 0;
  for (const std::int64_t n : layers) sum += n;
  if (chunks % stages != 0)
    fail(fmt::format("{} parts cannot be distributed over {} stages", chunks, stages));
  if (sum != number("model.num_layers", sum))
    fail(fmt::format("{} layers, but --num-layers is {}", sum, number("model.num_layers", 0)));
  if (chunks > stages) set("model.virtual_pipeline_model_parallel_size", std::to_string(chunks / stages));
  if (chunks > 1) set("model.pipeline_layers", fmt::format("[{}]", fmt::join(layers, ", ")));
}

// Layers of the first and the last stage given: the rest is distributed evenly.
void MegatronReading::uneven_stages() {
  const auto first = whole("decoder-first-pipeline-num-layers"),
             last = whole("decoder-last-pipeline-num-layers");
  if (!first && !last) return;
  const std::int64_t layers = number("model.num_layers", 0),
                     stages = number("model.pipeline_model_parallel_size", 1),
                     chunks = number("model.virtual_pipeline_model_parallel_size", 1);
  const std::int64_t ends = first.has_value() + last.has_value();
  const std::int64_t rest = layers - first.value_or(0) - last.value_or(0), between = stages - ends;
  require<UsageError>(
      rest >= 0 && (between > 0 ? rest % between == 0 : rest == 0 && between == 0),
      "--from-megatron: {} layers without the first and the last stage do not divide evenly into {} "
      "stages",
      rest, between);
  std::vector<std::int64_t> each(static_cast<std::size_t>(stages), between > 0 ? rest / between : 0);
  if (first) each.front() = *first;
  if (last) each.back() = *last;
  std::vector<std::int64_t> of_chunks;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
    for (const std::int64_t n : each) {
      require<UsageError>(n % chunks == 0,
                          "--from-megatron: a stage of {} layers does not divide evenly into {} chunks", n,
                          chunks);
      of_chunks.push_back(n / chunks);
    }
  set("model.pipeline_layers", fmt::format("[{}]", fmt::join(of_chunks, ", ")));
}

void MegatronReading::sharding() {
  if (take("use-tp-pp-dp-mapping")) {
    only_estimated("use-tp-pp-dp-mapping", "ranks placed with data parallelism outermost");
    set("model.use_tp_pp_dp_mapping", "true");
  }
  if (const auto instances = whole("num-distributed-optimizer-instances"); instances && *instances > 1) {
    only_estimated("num-distributed-optimizer-instances",
                   "optimizer state sharded over part of the data-parallel ranks: more memory");
    set("model.num_distributed_optimizer_instances", std::to_string(*instances));
  }
  if (take("overlap-moe-expert-parallel-comm") && is_set("model.num_moe_experts")) {
    only_estimated(
        "overlap-moe-expert-parallel-comm",
        "a schedule that hides the experts' communication behind another microbatch: it changes time and "
        "memory");
    set("model.overlap_moe_expert_parallel_comm", "true");
  }
  if (take("use-distributed-optimizer")) set("model.zero_stage", "1");
  const bool now = take("use-megatron-fsdp"), before = take("use-custom-fsdp");
  if (now || before) {
    static const std::map<std::string, std::string> kStages{
        {"no_shard", "0"}, {"optim", "1"}, {"optim_grads", "2"}, {"optim_grads_params", "3"}};
    const auto given = value("data-parallel-sharding-strategy");
    const std::string strategy = given.value_or(now ? "optim_grads_params" : "no_shard");
    const auto stage = kStages.find(strategy);
    require<UsageError>(stage != kStages.end(),
                        "--from-megatron: --data-parallel-sharding-strategy {}: expected no_shard, optim, "
                        "optim_grads or optim_grads_params",
                        strategy);
    set("model.zero_stage", stage->second);
    if (!given) note(fmt::format("--data-parallel-sharding-strategy {}: Megatron's default", strategy));
  }
  if (take("use-torch-fsdp2")) set("model.zero_stage", "3");
  if (take("deepspeed")) {
    const char* const kFiles[] = {"deepspeed_config", "deepspeed-config"};
    const auto stage = whole("zero-stage");
    if (stage) set("model.zero_stage", std::to_string(*stage));
    for (const char* name : kFiles) {
      const auto file = value(name);
      if (!file || stage) continue;
      std::error_code error;
      if (!fs::is_regular_file(*file, error)) {
        refuse(name, "the file is not here, and it may shard the optimizer: give --zero-stage too");
        continue;
      }
      const auto json = nlohmann::json::parse(read_text(*file), nullptr, false, true);
      require<UsageError>(!json.is_discarded(), "--from-megatron: --{} {} is not JSON", name, *file);
      const auto zero = json.value("zero_optimization", nlohmann::json::object());
      set("model.zero_stage", std::to_string(zero.value("stage", 0)));
      if (zero.contains("offload_optimizer") || zero.contains("offload_param"))
        refuse(name, "the file offloads parameters or optimizer state to host memory");
    }
  }
  if (const auto numbers = whole("ddp-bucket-size"))  // of fp32
    set("model.optim.bucket_cap_mb", fmt::format("{}", static_cast<double>(*numbers) * 4 / (1 << 20)));
}

void MegatronReading::context() {
  if (const auto ranks = whole("ds-sequence-parallel-size"); ranks && *ranks > 1) {
    set("model.context_parallel_size", std::to_string(*ranks));
    set("model.cp_comm_type", "a2a");
  }
  if (number("model.context_parallel_size", 1) == 1) return;
  if (const GivenArgument* types = find("cp-comm-type")) {
    take("cp-comm-type");
    if (std::any_of(types->values.begin(), types->values.end(),
                    [&](const std::string& v) { return v != types->values.front(); }))
      refuse("cp-comm-type", "another exchange in each layer");
    else
      set("model.cp_comm_type", types->values.front());
  }
  if (const GivenArgument* sizes = find("hierarchical-context-parallel-sizes")) {
    take("hierarchical-context-parallel-sizes");
    set("model.hierarchical_context_parallel_sizes", fmt::format("[{}]", fmt::join(sizes->values, ", ")));
  }
}

void MegatronReading::recomputation() {
  retired_recomputation();
  if (take("recompute-activations")) set("model.activations_checkpoint_granularity", "selective");
  if (const auto granularity = value("recompute-granularity"); granularity && *granularity != "none")
    set("model.activations_checkpoint_granularity", *granularity);
  if (has("moe-layer-recompute")) {
    require<UsageError>(value("recompute-granularity").value_or("selective") != "full",
                        "--from-megatron: --moe-layer-recompute and --recompute-granularity full: give one");
    set("model.activations_checkpoint_granularity", "selective");
  }
  const auto it = values_.find("model.activations_checkpoint_granularity");
  if (it == values_.end()) return;
  if (it->second == "full") {
    if (const auto method = value("recompute-method")) set("model.activations_checkpoint_method", *method);
    if (const auto n = value("recompute-num-layers")) set("model.activations_checkpoint_num_layers", *n);
    return;
  }
  note(
      "selective recomputation covers norms and activation functions here; attention never stores its "
      "scores");
  recomputed_modules();
}

// Parts of a layer: those that selective recomputation here covers, those that plans estimate, others.
void MegatronReading::recomputed_modules() {
  std::vector<std::string> estimated, others;
  if (take("moe-layer-recompute")) estimated.emplace_back("moe");
  if (const GivenArgument* modules = find("recompute-modules")) {
    take("recompute-modules");
    for (const std::string& m : modules->values) {
      if (m == "mla_up_proj" || m == "mlp" || m == "moe" || m == "shared_experts")
        estimated.push_back(m);
      else if (m != "core_attn" && m != "layernorm" && m != "moe_act")
        others.push_back(m);
    }
  }
  if (!others.empty())
    refuse("recompute-modules",
           fmt::format(
               "recomputation of {} alone: expected core_attn, layernorm, moe_act, mla_up_proj, mlp, moe, "
               "shared_experts, or --recompute-granularity full",
               fmt::join(others, ", ")));
  if (estimated.empty()) return;
  only_estimated(has("moe-layer-recompute") ? "moe-layer-recompute" : "recompute-modules",
                 "recomputation of single modules");
  set("model.recompute_modules", fmt::format("[{}]", fmt::join(estimated, ", ")));
}

// The names before August 2022.
void MegatronReading::retired_recomputation() {
  const bool all = take("checkpoint-activations");
  const auto granularity = value("activations-checkpoint-granularity");
  const auto method = value("activations-checkpoint-method");
  if (!all && !method && !granularity) return;
  set("model.activations_checkpoint_granularity", granularity.value_or("full"));
  if (!all && !method) return;
  set("model.activations_checkpoint_method", method.value_or("uniform"));
  for (const char* name : {"checkpoint-num-layers", "activations-checkpoint-num-layers"})
    if (const auto n = value(name)) set("model.activations_checkpoint_num_layers", *n);
  if (!is_set("model.activations_checkpoint_num_layers")) set("model.activations_checkpoint_num_layers", "1");
}

void MegatronReading::offloading() {
  const auto layers = whole("cpu-offloading-num-layers");
  if (!layers || *layers == 0) return;
  set("model.cpu_offloading", "true");
  set("model.cpu_offloading_num_layers", std::to_string(*layers));
}

void MegatronReading::precision() {
  require<UsageError>(!(has("bf16") && has("fp16")),
                      "--from-megatron: --bf16 and --fp16 are both given: give one");
  if (!is_set("trainer.precision")) set_default("trainer.precision", "fp32");
  if (values_.at("trainer.precision") == "fp16") {
    if (const auto scale = value("loss-scale"); scale && real("loss-scale").value_or(0) >= 1) {
      set("model.native_amp_init_scale", *scale);
      note(
          fmt::format("--loss-scale {}: the scale begins there, and changes where numbers overflow", *scale));
    }
  }
  for (const auto& [flag, format] : {std::pair("fp8-e4m3", "e4m3"), std::pair("fp8-hybrid", "hybrid")})
    if (take(flag)) set("model.fp8", format);
  if (const auto format = value("fp8-format")) set("model.fp8", *format);
  if (is_set("model.fp8")) eight_bits();
  take("fp8-param-gather");  // of nothing without FP8
}

// Megatron's defaults of what --fp8-format turns on.
void MegatronReading::eight_bits() {
  if (const auto recipe = value("fp8-recipe")) {
    if (*recipe == "delayed" || *recipe == "tensorwise") {
      set("model.fp8_recipe", *recipe);
    } else if (*recipe == "blockwise" || *recipe == "mxfp8") {
      only_estimated("fp8-recipe", "a scale for each block of a tensor: expected one of tensorwise, delayed");
      set("model.fp8_recipe", "tensorwise");
      set("model.fp8_blocks", *recipe);
    } else {
      refuse("fp8-recipe", "expected one of tensorwise, delayed, blockwise, mxfp8");
    }
  }
  if (take("fp8-param-gather")) {
    only_estimated("fp8-param-gather",
                   "weights kept in 8 bits: Stoa keeps them in fp32 and compute precision");
    set("model.fp8_params", "true");
  }
  set_default("model.fp8_recipe", "delayed");
  set_default("model.fp8_amax_history_len", "1");
  set_default("model.fp8_amax_compute_algo", "most_recent");
}

}  // namespace stoa::foreign
