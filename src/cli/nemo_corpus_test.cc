// Public training files of NeMo's launcher and of NeMo 1.x: each is read right, or refused with the reason.
// The facts are those of tests/oracle/nemo_facts.py.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "cli/config_source.h"
#include "cli/corpus_count.h"
#include "cli/schema.h"
#include "config/value.h"
#include "config/yaml.h"
#include "train/layout_plan.h"

namespace stoa::cli {
namespace {

using nlohmann::json;

json value_at(const config::Node& shown, const char* path) {
  const config::Node* node = shown.find_path(path);
  if (!node || node->is_null()) return nullptr;
  if (const auto integer = config::parse_integer(node->scalar)) return *integer;
  if (const auto real = config::parse_real(node->scalar)) return *real;
  return node->scalar;
}

json facts_of_nemo(const train::RunConfig& run) {
  const config::Node shown = config::parse_yaml(show_run_config(run), "shown");
  json facts;
  constexpr std::pair<const char*, const char*> kPaths[] = {
      {"kind", "model.kind"},
      {"layers", "model.num_layers"},
      {"hidden", "model.hidden_size"},
      {"heads", "model.num_attention_heads"},
      {"groups", "model.num_query_groups"},
      {"ffn", "model.ffn_hidden_size"},
      {"seq", "model.encoder_seq_length"},
      {"tp", "model.tensor_model_parallel_size"},
      {"pp", "model.pipeline_model_parallel_size"},
      {"vpp", "model.virtual_pipeline_model_parallel_size"},
      {"cp", "model.context_parallel_size"},
      {"ep", "model.expert_model_parallel_size"},
      {"micro", "model.micro_batch_size"},
      {"global", "model.global_batch_size"},
      {"recompute", "model.activations_checkpoint_granularity"},
      {"precision", "trainer.precision"},
      {"experts", "model.num_moe_experts"},
      {"topk", "model.moe_router_topk"},
      {"zero", "model.zero_stage"},
      {"activation", "model.activation"},
      {"normalization", "model.normalization"},
      {"positions", "model.position_embedding_type"},
      {"window", "model.window_size"},
      {"lr", "model.optim.lr"},
      {"steps", "trainer.max_steps"},
      {"vocab", "model.vocab_size"}};
  for (const auto& [name, path] : kPaths) facts[name] = value_at(shown, path);
  if (facts["vpp"].is_null()) facts["vpp"] = 1;
  if (facts["experts"].is_null()) facts["experts"] = 0;
  facts["ranks"] = train::ranks_of(run);
  facts["schedule"] = run.layout.pipeline_schedule.value_or(facts["vpp"] > 1  ? "interleaved"
                                                            : facts["pp"] > 1 ? "1f1b"
                                                                              : "none");
  return facts;
}

TEST(NemoCorpus, IsReadRightOrRefusedWithTheReason) {
  const json corpus = json::parse(read_text(test::source_dir() / "tests/fixtures/nemo/corpus.json"));
  const TestFolder folder;
  const fs::path file = folder / "nemo.yaml";
  CorpusCount count;
  for (const json& entry : corpus) {
    SCOPED_TRACE(entry["path"].get<std::string>());
    write_text(file, entry["values"].dump());
    const std::string reason = entry.value("refused", std::string());
    ConfigArguments arguments;
    arguments.config = file.string();
    try {
      const json facts = facts_of_nemo(read_config(arguments, Purpose::kPlan).run);
      bool same = reason.empty();
      EXPECT_EQ(reason, "") << "expected a refusal";
      for (const auto& [name, value] : entry["facts"].items()) {
        EXPECT_EQ(facts[name], value) << name;
        same = same && facts[name] == value;
      }
      (same ? count.right : count.wrong) += 1;
    } catch (const Error& error) {
      const std::string message = error.what();
      const bool expected = !reason.empty() && message.find(reason) != std::string::npos;
      EXPECT_TRUE(expected) << message;
      (expected ? count.refused : count.wrong) += 1;
      count.invalid += expected && entry.contains("invalid");
    }
  }
  count.report("NeMo 1");
  EXPECT_EQ(count.wrong, 0);
  EXPECT_GE(corpus.size(), 90U);
  EXPECT_GE(count.right * 100, (count.all() - count.invalid) * 95);
}

}  // namespace
}  // namespace stoa::cli
