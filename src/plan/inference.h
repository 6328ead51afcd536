// Latency, throughput and memory of generation: prompts are read in one pass, which the products bound; then
// a token at a time, which reading weights, keys and values bounds. A pipeline works on as many parts of the
// batch as it has stages. An encoder-decoder reads the source in place of a prompt: its encoder's layers
// then, and its decoder's for every token. Efficiencies are fitted to NVIDIA's tables of FasterTransformer on
// A100 (NeMo Megatron launcher README, 2022 to 2023), which are 9 % from it on average (inference_test.cc);
// those of an encoder's and of single tokens' attention are assumed to be as the others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/value.h"
#include "plan/cluster.h"
#include "plan/workload.h"
#include "tensor/dtype.h"

namespace stoa::plan {

struct InferenceConstants {
  double prompt_gemm = 0.50;        // share of the 16-bit peak in the pass over the prompt
  double token_gemm = 0.77;         // the same where one token per sequence is made
  double memory = 0.74;             // share of memory bandwidth
  double layer_seconds = 80e-6;     // kernels of a layer that are too short to fill a device
  double hop_seconds = 6.8e-6;      // of an all-reduce, per further rank
  double link = 0.6;                // share of the island's bandwidth
  double attention = 0.30;          // share of peak of the attention core of a prompt
  double encoder_attention = 0.30;  // the same of a source, whose tokens all attend to each other
  double token_attention =
      1;  // the same where a token attends to those before it, if that is slower than reading them
  double sampled_bytes = 300;  // moved per logit: sorting and drawing
};

// Those above, or for a cluster of CPUs those of Stoa's own engine on them, fitted to `stoa bench engine` of
// a decoder with 195 million weights on two cores with AVX-512-BF16
// (bench/results/2026-11-27-encoder-decoders.md).
InferenceConstants inference_constants(const Cluster& cluster);

// Bytes of a weight and of a key or value. Those of GGUF files (quant/block_format.h) count their scales.
enum class InferenceType {
  kFp32,
  kBf16,
  kFp16,
  kFp8,
  kInt8,
  kQ8_0,
  kQ6_K,
  kQ5_K,
  kQ5_1,
  kQ5_0,
  kQ4_K,
  kQ4_1,
  kQ4_0
};
std::span<const config::EnumName<InferenceType>> enum_names(InferenceType);
double bytes_of(InferenceType type);

struct InferencePoint {
  std::int64_t tp = 1, pp = 1, batch = 1;
  InferenceType weights = InferenceType::kBf16, cache = InferenceType::kBf16;
};

// The type of keys and values next to weights of this type, as the engine chooses it.
InferenceType cache_type_of(InferenceType weights);
// That of the engine's option (infer/cache_type.h).
InferenceType cache_type_of(DType type);

// The parts of the time that a server's pass takes, and of its memory, by the same formulas: prompts and
// answers share passes there. One stage; windows of attention are not counted.
class ServingParts {
 public:
  // ConfigError as of predict_inference().
  ServingParts(const ModelShape& model, const InferencePoint& point, const Cluster& cluster);
  ~ServingParts();

  // A pass over this many tokens, of which `scored` need logits, without attention to other tokens.
  double seconds(std::int64_t tokens, std::int64_t scored) const;
  double seconds_per_token_read() const;  // of an answer's next token, per token before it or of its source
  double seconds_per_pair() const;        // of a prompt, per token and token that it attends to
  // Encoder-decoders, whose tokens above are those of targets: what sources of this many tokens take more,
  // and attention among them, per pair.
  double seconds_of_sources(std::int64_t tokens) const;
  double seconds_per_source_pair() const;
  // Bytes on a device.
  double weight_bytes() const;
  double cache_bytes_per_token() const;

 private:
  double caching_layers() const;
  struct State;
  const std::unique_ptr<const State> state_;
};

struct InferenceAnswer {
  InferencePoint point;
  std::string type;                 // of the weights, for people
  double first_token = 0;           // seconds: the pass over the prompt
  double per_token = 0;             // seconds between tokens, at the middle of the output
  double latency = 0;               // seconds of the whole answer
  double sequences_per_second = 0;  // per device
  double tokens_per_second = 0;     // output tokens, per device
  double weight_bytes = 0, cache_bytes = 0, work_bytes = 0;  // of a device
  double bytes() const { return weight_bytes + cache_bytes + work_bytes; }
  bool fits = true;
};

struct InferenceRequest {
  ModelShape model;
  std::int64_t input = 60, output = 20;  // tokens of prompts (or sources) and of answers
  std::vector<std::int64_t> tensor, pipeline,
      batches;  // grids; empty degrees: all that divide, within two nodes
  std::vector<InferenceType> types{InferenceType::kBf16};
  std::optional<InferenceType> cache;  // none: cache_type_of()
  double memory = 0;                   // bytes of a device
  std::optional<double> most_latency;  // seconds
};

// ConfigError where the heads or the layers cannot be split so.
InferenceAnswer predict_inference(const ModelShape& model, std::int64_t input, std::int64_t output,
                                  const InferencePoint& point, const Cluster& cluster, double memory);

struct InferenceResult {
  std::vector<InferenceAnswer> grid;  // every point, those that do not fit too
  std::vector<InferenceAnswer>
      front;  // nothing has both lower latency and more throughput per device; fastest first
  std::optional<InferenceAnswer>
      best;  // of most throughput per device within the latency; none: nothing fits
};
// ConfigError where the grid is empty.
InferenceResult plan_inference(const InferenceRequest& request, const Cluster& cluster);
// The front and the best of these answers. ConfigError: there are none.
InferenceResult choose_inference(std::vector<InferenceAnswer> grid, std::optional<double> most_latency);

// `place`: what the answers hold for, such as "A100 (78 GB of each)".
std::string to_text(const InferenceResult& result, const InferenceRequest& request, const std::string& place);
std::string to_json(const InferenceResult& result);
// Columns of NVIDIA's inference search: TP, PP, BS, Latency [ms], Throughput per GPU [samples/sec/gpu]; then
// ours.
std::string to_csv(const InferenceResult& result);

}  // namespace stoa::plan
