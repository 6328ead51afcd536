// Every pair of choices - of how the model is spread, and of what it is - in as few runs as a greedy search
// finds. Each layout is compared with one rank, and in every bit with the same layout without pipeline,
// recomputation and sharding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <random>
#include <set>

#include "layout_run.h"

namespace stoa::layouts {
namespace {

using ::testing::IsEmpty;

struct Choice {
  const char* name;
  std::vector<const char*> values;
};

enum Factor {
  kTensor,
  kPipeline,
  kData,
  kRecompute,
  kMicro,
  kHead,
  kGroups,
  kDropout,
  kSamples,
  kKind,
  kZero,
  kContext,
  kExperts
};

const std::vector<Choice>& choices() {
  static const std::vector<Choice> all{
      {"tp", {"1", "2", "2 sequence", "4 sequence"}},
      {"pp",
       {"1", "1f1b 2", "1f1b 4", "interleaved 2x2", "interleaved 4x2", "zb-h1 2", "zb-v 2", "dualpipev 2",
        "interleaved-zb 2x2", "1f1b 2 uneven"}},
      {"dp", {"1", "2"}},
      {"recompute", {"none", "selective", "uniform", "block", "offload", "selective, offload"}},
      {"microbatch", {"1", "2"}},
      {"head", {"tied", "untied"}},
      {"groups", {"8", "2"}},
      {"dropout", {"off", "on"}},
      {"samples", {"whole", "packed", "one without tokens"}},
      {"kind", {"gpt2", "llama", "parallel residual", "norms after", "norms before and after"}},
      {"zero", {"0", "1", "2 overlapped", "3 overlapped"}},
      {"cp", {"1", "2 p2p", "2 all_gather", "2 a2a", "4 p2p", "4 a2a+p2p"}},
      {"experts", {"none", "whole", "dealt out", "cut"}}};
  return all;
}

using CoveringRow = std::vector<int>;  // value by factor

std::string name_of(const CoveringRow& row) {
  std::string out;
  for (std::size_t f = 0; f < row.size(); ++f)
    out += std::string(f ? ", " : "") + choices()[f].name + " " + choices()[f].values[row[f]];
  return out;
}

// A row for every pair of values of two factors, greedily: of many random rows, the one with most new pairs.
std::vector<CoveringRow> covering_rows() {
  using Pair = std::array<int, 4>;
  std::set<Pair> open;
  const auto& all = choices();
  const int factors = static_cast<int>(all.size());
  for (int a = 0; a < factors; ++a)
    for (int b = a + 1; b < factors; ++b)
      for (int i = 0; i < static_cast<int>(all[a].values.size()); ++i)
        for (int j = 0; j < static_cast<int>(all[b].values.size()); ++j) open.insert({a, i, b, j});
  std::mt19937 random(1);
  std::vector<CoveringRow> rows;
  while (!open.empty()) {
    CoveringRow best;
    int most = 0;
    for (int attempt = 0; attempt < 300; ++attempt) {
      CoveringRow row;
      for (const Choice& choice : all) row.push_back(static_cast<int>(random() % choice.values.size()));
      const Pair& wanted = *open.begin();
      row[wanted[0]] = wanted[1], row[wanted[2]] = wanted[3];
      int covered = 0;
      for (int a = 0; a < factors; ++a)
        for (int b = a + 1; b < factors; ++b) covered += static_cast<int>(open.count({a, row[a], b, row[b]}));
      if (covered > most) most = covered, best = row;
    }
    for (int a = 0; a < factors; ++a)
      for (int b = a + 1; b < factors; ++b) open.erase({a, best[a], b, best[b]});
    rows.push_back(best);
  }
  return rows;
}

TestRun run_of(const CoveringRow& row) {
  TestRun run = tiny_run();
  model::ModelConfig& c = run.config;
  c.num_layers = 8;
  c.hidden_size = 32;
  c.num_attention_heads = 8;  // for exchanges among the heads of a tensor-parallel rank
  c.encoder_seq_length = 16;
  run.rows = 16;
  run.steps = 20;
  run.micro_batch = row[kMicro] + 1;
  c.share_embeddings_and_output_weights = row[kHead] == 0;
  c.num_query_groups = row[kGroups] == 0 ? 8 : 2;
  if (row[kDropout] == 0) c.hidden_dropout = c.attention_dropout = c.embedding_dropout = 0;
  run.packed = row[kSamples] == 1;
  run.masked_rows = row[kSamples] == 2 ? 2 : 0;
  c.use_parallel_residual = row[kKind] == 2;
  if (row[kKind] == 3) {
    c.norm_placement = model::NormPlacement::kAfter;
    // Norms of small branches magnify rounding: at the usual rate, with experts and packed samples, two to
    // ten times a step, from 1e-16 to 1e-6 and more in twenty steps. At this rate it stays at 1e-14.
    run.rate = 2e-4;
  }
  if (row[kKind] == 4) c.norm_placement = model::NormPlacement::kBoth;
  if (row[kKind] == 1) {
    c.position_embedding_type = model::PositionEmbedding::kRope;
    c.normalization = model::Normalization::kRmsNorm;
    c.activation = model::Activation::kSwiglu;
    c.bias = model::BiasKind::kNone;
  }
  if (row[kExperts] > 0) {
    c.bias = model::BiasKind::kNone;
    c.moe.num_moe_experts = 4;
    c.moe.moe_ffn_hidden_size = 12;
    c.moe.moe_aux_loss_coeff = 0.02;
    c.moe.moe_dense_layers = {1, 6};
  }
  return run;
}

// Over all ranks of a stage: whole experts on as many as divide them, or each expert on all.
grid::ExpertDegrees experts_of(const CoveringRow& row, int ranks) {
  if (row[kExperts] == 2) return {1, std::gcd(4, ranks)};
  if (row[kExperts] == 3) return {std::min(ranks, 8), 1};
  return {1, 1};
}

model::RecomputeConfig recompute_of(const CoveringRow& row) {
  using enum model::RecomputeGranularity;
  switch (row[kRecompute]) {
    case 1:
      return {kSelective, {}, {}};
    case 2:
      return {kFull, model::RecomputeMethod::kUniform, 2};
    case 3:
      return {kFull, model::RecomputeMethod::kBlock, 1};
    case 4:
      return {kNone, {}, {}, {.cpu_offloading = true, .cpu_offloading_num_layers = {}}};
    case 5:
      return {kSelective, {}, {}, {.cpu_offloading = true, .cpu_offloading_num_layers = 1}};
    default:
      return {};
  }
}

run::Layout layout_of_row(const CoveringRow& row, bool plain) {
  struct Pipeline {
    const char* schedule;
    int ranks, chunks;
  };
  constexpr Pipeline kPipelines[] = {
      {"1f1b", 1, 0},  {"1f1b", 2, 0}, {"1f1b", 4, 0},      {"interleaved", 2, 2},    {"interleaved", 4, 2},
      {"zb-h1", 2, 0}, {"zb-v", 2, 0}, {"dualpipev", 2, 0}, {"interleaved-zb", 2, 2}, {"1f1b", 2, 0}};
  const Pipeline& p = kPipelines[plain ? 0 : row[kPipeline]];
  constexpr int kTensorRanks[] = {1, 2, 2, 4};
  struct Context {
    int ranks;
    parallel::ContextKind kind;
    int neighbours = 1;
  };
  using enum parallel::ContextKind;
  constexpr Context kContexts[] = {{1, kRing},     {2, kRing}, {2, kAllGather},
                                   {2, kAllToAll}, {4, kRing}, {4, kHierarchical, 2}};
  const Context& context = kContexts[row[kContext]];
  const int tensor = kTensorRanks[row[kTensor]], data = row[kData] + 1;
  run::Layout layout;
  layout.grid = grid::RankGrid({tensor, context.ranks, 1, data, p.ranks},
                               experts_of(row, tensor * context.ranks * data));
  layout.context_kind = context.kind;
  layout.context_neighbours = context.neighbours;
  // Two groups of heads on several tensor-parallel ranks leave one for an exchange.
  if (layout.context_place(0).exchanging() > 1 && row[kGroups] == 1 && row[kTensor] > 0)
    layout.context_kind = kRing;
  layout.sequence_parallel = row[kTensor] >= 2;
  layout.schedule = p.schedule;
  layout.chunks = p.chunks;
  if (!plain && row[kPipeline] == 9) layout.layers = {5, 3};
  if (!plain) layout.zero_stage = row[kZero];
  layout.bucket_bytes = 20000;
  layout.overlap_grad_reduce = layout.zero_stage >= 2;
  return layout;
}

TEST(Covering, EveryPair) {
  std::vector<CoveringRow> rows = covering_rows();
  // The whole list takes minutes: it is the command tests/slow/layouts.sh.
  const bool all = std::getenv("STOA_LAYOUTS") != nullptr;
  if (!all) {  // spread over the list, whose first rows have no tensor parallelism
    std::vector<CoveringRow> some;
    for (std::size_t i = 4; i < rows.size(); i += 9) some.push_back(rows[i]);
    rows = std::move(some);
  }
  std::map<std::string, RunResult> plain;  // without pipeline and recomputation
  for (CoveringRow row : rows) {
    SCOPED_TRACE(name_of(row));
    if (all) std::printf("%s\n", name_of(row).c_str()), std::fflush(stdout);
    TestRun run = run_of(row);
    if (!all) run.steps = 4;
    CoveringRow model = row, flat = row;
    model[kTensor] = model[kData] = model[kContext] = 0;
    model[kExperts] = std::min(row[kExperts], 1);
    for (CoveringRow* r : {&model, &flat}) (*r)[kPipeline] = (*r)[kRecompute] = (*r)[kZero] = 0;
    for (const CoveringRow& r : {model, flat})
      if (!plain.contains(name_of(r))) plain[name_of(r)] = run_layout(run, layout_of_row(r, true));
    EXPECT_THAT(differences(plain[name_of(model)], plain[name_of(flat)], 1e-9), IsEmpty());
    run.config.recompute = recompute_of(row);
    EXPECT_THAT(differences(plain[name_of(flat)], run_layout(run, layout_of_row(row, false)), 0), IsEmpty());
  }
  std::printf("%zu layouts of %zu\n", rows.size(), covering_rows().size());
}

}  // namespace
}  // namespace stoa::layouts
