// Public command lines of Megatron-LM, BigScience and Megatron-DeepSpeed: each is read right, or refused by
// the names of the arguments that it is refused for. The facts are those of tests/oracle/megatron_facts.py.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/test_paths.h"
#include "cli/config_source.h"
#include "cli/corpus_count.h"

namespace stoa::cli {
namespace {

using nlohmann::json;

json facts_of(const train::RunConfig& run) {
  const auto& model = run.model;
  const std::int64_t stages = run.layout.pipeline_model_parallel_size,
                     chunks = run.layout.virtual_pipeline_model_parallel_size.value_or(1);
  json facts{{"layers", model.num_layers},
             {"hidden", model.hidden_size},
             {"heads", model.num_attention_heads},
             {"groups", model.query_groups()},
             {"ffn", model.ffn_size()},
             {"seq", model.encoder_seq_length},
             {"tp", run.layout.tensor_model_parallel_size},
             {"pp", stages},
             {"vpp", chunks},
             {"cp", run.layout.context_parallel_size},
             {"ep", run.layout.expert_model_parallel_size},
             {"micro", run.batch.micro_batch_size},
             {"global", run.batch.global()},
             {"experts", model.moe.num_moe_experts.value_or(0)},
             {"schedule", run.layout.pipeline_schedule.value_or(chunks > 1   ? "interleaved"
                                                                : stages > 1 ? "1f1b"
                                                                             : "none")}};
  using Granularity = model::RecomputeGranularity;
  const Granularity recompute = model.recompute.granularity;
  facts["recompute"] = recompute == Granularity::kFull        ? "full"
                       : recompute == Granularity::kSelective ? "selective"
                                                              : "none";
  const train::Precision precision = run.trainer.precision;
  facts["precision"] = precision == train::Precision::kFp16   ? "fp16"
                       : precision == train::Precision::kBf16 ? "bf16"
                                                              : "fp32";
  if (model.moe.num_moe_experts) facts["topk"] = model.moe.moe_router_topk;
  if (model.vocab_size) facts["vocab"] = *model.vocab_size;
  return facts;
}

FoundConfig read_entry(const json& entry, std::vector<std::string> ignore) {
  ConfigArguments arguments;
  arguments.from_megatron = fmt::format("pretrain_{}.py {}", entry["kind"].get<std::string>(),
                                        entry["arguments"].get<std::string>());
  arguments.ignore = std::move(ignore);
  return read_config(arguments, Purpose::kPlan, entry["ranks"].get<std::int64_t>());
}

TEST(MegatronCorpus, IsReadRightOrRefusedWithTheReason) {
  const json corpus = json::parse(read_text(test::source_dir() / "tests/fixtures/megatron/corpus.json"));
  CorpusCount count;
  for (const json& entry : corpus) {
    SCOPED_TRACE(entry["path"].get<std::string>());
    const auto names = entry.value("refused", std::vector<std::string>());
    if (!names.empty()) {
      ++count.refused;
      try {
        read_entry(entry, {});
        ADD_FAILURE() << "expected a refusal of " << fmt::format("{}", fmt::join(names, ", "));
      } catch (const UsageError& error) {
        std::string ignore;
        for (const std::string& name : names) ignore += " --ignore " + name;
        EXPECT_TRUE(std::string(error.what()).ends_with("without:" + ignore)) << error.what();
      }
    }
    try {  // what is refused is read right without it
      const json facts = facts_of(read_entry(entry, names).run);
      bool same = true;
      for (const auto& [name, value] : entry["facts"].items()) {
        EXPECT_EQ(facts[name], value) << name;
        same = same && facts[name] == value;
      }
      if (names.empty() || !same) ++(same ? count.right : count.wrong);
    } catch (const Error& error) {
      ++count.wrong;
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_GE(corpus.size(), 60u);
  count.report("Megatron-LM");
  EXPECT_EQ(count.wrong, 0);
  EXPECT_GE(count.right, static_cast<int>(corpus.size()) * 95 / 100);
}

}  // namespace
}  // namespace stoa::cli
