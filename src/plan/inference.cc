#include "plan/inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/error.h"
#include "ops/cache_rows.h"
#include "plan/csv.h"
#include "plan/workload.h"
#include "quant/block_format.h"

namespace stoa::plan {

// What one device has to do of one layer, by tokens in a pass.
class InferenceLayers {
 public:
  InferenceLayers(const ModelShape& m, const InferencePoint& p, const Cluster& c, const InferenceConstants& k)
      : m_(m), p_(p), k_(k) {
    const bool eight = p.weights == InferenceType::kFp8 && c.device.fp8_tflops;
    peak_ = c.peak(eight ? Format::kFp8 : p.weights == InferenceType::kFp32 ? Format::kFp32 : Format::kBf16);
    peak16_ = c.peak(p.weights == InferenceType::kFp32 ? Format::kFp32 : Format::kBf16);
    bandwidth_ = c.device.memory_bandwidth_gbs * 1e9 * k.memory;
    const bool inside = p.tp <= c.links.devices_per_island;
    const double network = c.links.network_bandwidth_gbs.value_or(c.links.island_bandwidth_gbs);
    link_ = (inside ? c.links.island_bandwidth_gbs : network) * 1e9 * k.link;
    hop_ = inside ? k.hop_seconds : c.links.network_latency_us * 1e-6;
    send_bandwidth_ = network * 1e9;
    send_latency_ = c.links.network_latency_us * 1e-6;
  }

  // Products of the mean layer, and with a matrix of `more` parameters: all weights are read once, whatever
  // the number of tokens; of experts those that are chosen by any.
  double products(double tokens, double efficiency, double more = 0) const {
    const double share = real(m_.expert_layers) / real(m_.layers);
    const double dense =
        more + (1 - share) * m_.layer_parameters(false) + share * m_.active_layer_parameters(true);
    double read = dense;
    if (m_.experts > 0) {
      const double used = std::min(1.0, tokens * real(m_.top_k) / real(m_.experts));
      read = more + (1 - share) * m_.layer_parameters(false) +
             share * std::max(m_.active_layer_parameters(true), used * m_.layer_parameters(true));
    }
    return product(dense, read, tokens, efficiency);
  }
  double product(double dense, double read, double tokens, double efficiency) const {
    return std::max(2 * dense * tokens / real(p_.tp) / (peak_ * efficiency),
                    read * bytes_of(p_.weights) / real(p_.tp) / bandwidth_);
  }
  double reductions(double tokens) const {
    if (p_.tp == 1) return 0;
    const double bytes = tokens * real(m_.hidden) * 2;
    return 2 * (hop_ * real(p_.tp - 1) + 2 * real(p_.tp - 1) / real(p_.tp) * bytes / link_);
  }
  double cache_bytes(double tokens) const {  // of one layer, the mean one
    return (1 - m_.linear_share()) * softmax_cache_bytes(tokens);
  }
  double state_bytes(double sequences) const {  // of linear attention in the mean layer, in fp32
    return m_.linear_share() * sequences * real(m_.linear_values * m_.linear_key_size) * 4 / real(p_.tp);
  }
  // Bytes that a key or a value of this size takes.
  double head_bytes(std::int64_t size) const {
    const bool codes = p_.cache == InferenceType::kInt8;
    return codes ? real(ops::cached_width(DType::kU8, size)) : real(size) * bytes_of(p_.cache);
  }
  double softmax_cache_bytes(double tokens) const {
    if (m_.latent_rank > 0) return tokens * head_bytes(m_.latent_rank + m_.rotated);
    return 2 * tokens * real(m_.kv_heads) * head_bytes(m_.head_size) / real(p_.tp);
  }
  // Tokens that are read, without what they attend to.
  double pass(double tokens) const {
    return products(tokens, k_.prompt_gemm) + elementwise(tokens) + reductions(tokens) + k_.layer_seconds;
  }
  double prompt(double sequences, double length) const {
    const double tokens = sequences * length;
    return pass(tokens) + pairs(tokens * length / 2);
  }
  double token(double sequences, double context) const {
    const double seen = m_.window ? std::min(context, real(*m_.window)) : context;
    return products(sequences, k_.token_gemm) + read(sequences * seen) + states(sequences) +
           reductions(sequences) + k_.layer_seconds;
  }
  // Encoder-decoders. A layer of the encoder, by tokens and pairs of them that attend to each other.
  double encoder(double tokens, double attended) const { return pass(tokens) + encoder_pairs(attended); }
  // What a layer of the decoder does when sources are read: their keys and values are made, and kept.
  double cross_keys(double tokens) const {
    const double weights = m_.cross_parameters() / 2;
    return product(weights, weights, tokens, k_.prompt_gemm) + cache_bytes(tokens) / bandwidth_;
  }
  // Next tokens in a layer of the decoder, without the tokens that they attend to: a third branch, whose keys
  // and values are there.
  double decoder(double tokens, double efficiency) const {
    return products(tokens, efficiency, m_.cross_parameters() / 2) +
           1.5 * (elementwise(tokens) + reductions(tokens) + k_.layer_seconds);
  }
  double head(double sequences) const {
    const double weights = real(m_.hidden * m_.vocabulary) / real(p_.tp);
    return std::max(2 * weights * sequences / (peak16_ * k_.token_gemm),
                    weights * bytes_of(p_.weights) / bandwidth_) +
           sequences * real(m_.vocabulary) * k_.sampled_bytes / bandwidth_;
  }
  double elementwise(double tokens) const { return tokens * 30 * real(m_.hidden) / bandwidth_; }
  // Of attention to `tokens` earlier ones by the next token of an answer.
  double read(double tokens) const {
    return std::max(cache_bytes(tokens) / bandwidth_, attention(tokens) / (peak16_ * k_.token_attention));
  }
  // Of attention in prompts, by tokens and the tokens that each attends to.
  double pairs(double count) const { return attention(count) / (peak16_ * k_.attention); }
  double encoder_pairs(double count) const { return attention(count) / (peak16_ * k_.encoder_attention); }
  double states(double sequences) const { return 2 * state_bytes(sequences) / bandwidth_; }
  double send(double tokens) const {
    return p_.pp == 1 ? 0 : send_latency_ + tokens * real(m_.hidden) * 2 / send_bandwidth_;
  }

 private:
  // Multiplications and additions of a number of pairs of tokens.
  double attention(double count) const {
    return (1 - m_.linear_share()) * 4 * count * real(m_.heads * m_.head_size) / real(p_.tp);
  }

  const ModelShape& m_;
  const InferencePoint& p_;
  const InferenceConstants& k_;
  double peak_, peak16_, bandwidth_, link_, hop_, send_bandwidth_, send_latency_;
};

namespace {

std::string_view name_of_type(InferenceType type) {
  for (const auto& name : enum_names(type))
    if (name.value == type) return name.name;
  return "";
}

// What the fullest device holds, with `layers` layers.
double weight_bytes(const ModelShape& m, const InferencePoint& point, double layers) {
  const double ends = m.embedding_parameters() + (m.tied ? 0 : real(m.hidden * m.vocabulary)),
               cross = m.cross_parameters();
  const double mean_layer = (m.parameters() - ends - real(m.cross_layers()) * cross) / real(m.layers);
  return (layers * mean_layer + std::min(layers, real(m.cross_layers())) * cross +
          real(m.hidden * m.vocabulary) * (point.pp == 1 && !m.tied ? 2 : 1)) /
         real(point.tp) * bytes_of(point.weights);
}

void check_split(const ModelShape& m, const InferencePoint& point) {
  require<ConfigError>(m.heads % point.tp == 0,
                       "{} attention heads cannot be split over {} tensor-parallel ranks", m.heads, point.tp);
  require<ConfigError>(point.pp <= m.layers, "{} layers cannot be split over {} stages", m.layers, point.pp);
}

std::string row(const InferenceAnswer& a) {
  return fmt::format(
      "{:>4}{:>4}{:>7}  {:<6}{:>12.1f}{:>12.1f}{:>12.2f}{:>12.2f}{:>12.1f}{:>10.1f}{:>10.1f}{}\n", a.point.tp,
      a.point.pp, a.point.batch, a.type, a.latency * 1e3, a.first_token * 1e3, a.per_token * 1e3,
      a.sequences_per_second, a.tokens_per_second, a.cache_bytes / 1e9, a.bytes() / 1e9,
      a.fits ? "" : "  does not fit");
}

}  // namespace

InferenceConstants inference_constants(const Cluster& cluster) {
  InferenceConstants out;
  if (cluster.device.family != "CPU") return out;
  out.prompt_gemm = 0.60;
  out.token_gemm = 0.58;
  out.memory = 0.93;
  out.layer_seconds = 12e-6;
  out.attention = 0.20;
  out.encoder_attention = 0.60;
  out.token_attention = 0.027;
  out.sampled_bytes = 8;
  return out;
}

std::span<const config::EnumName<InferenceType>> enum_names(InferenceType) {
  static constexpr std::array<config::EnumName<InferenceType>, 13> kNames{{{"bf16", InferenceType::kBf16},
                                                                           {"fp16", InferenceType::kFp16},
                                                                           {"fp32", InferenceType::kFp32},
                                                                           {"fp8", InferenceType::kFp8},
                                                                           {"int8", InferenceType::kInt8},
                                                                           {"q8_0", InferenceType::kQ8_0},
                                                                           {"q6_k", InferenceType::kQ6_K},
                                                                           {"q5_k", InferenceType::kQ5_K},
                                                                           {"q5_1", InferenceType::kQ5_1},
                                                                           {"q5_0", InferenceType::kQ5_0},
                                                                           {"q4_k", InferenceType::kQ4_K},
                                                                           {"q4_1", InferenceType::kQ4_1},
                                                                           {"q4_0", InferenceType::kQ4_0}}};
  return kNames;
}

double bytes_of(InferenceType type) {
  using quant::BlockType;
  const auto of_block = [](BlockType block) {
    const quant::BlockFormat& format = quant::format_of(block);
    return static_cast<double>(format.bytes) / static_cast<double>(format.numbers);
  };
  switch (type) {
    case InferenceType::kQ8_0:
      return of_block(BlockType::kQ8_0);
    case InferenceType::kQ6_K:
      return of_block(BlockType::kQ6_K);
    case InferenceType::kQ5_K:
      return of_block(BlockType::kQ5_K);
    case InferenceType::kQ5_1:
      return of_block(BlockType::kQ5_1);
    case InferenceType::kQ5_0:
      return of_block(BlockType::kQ5_0);
    case InferenceType::kQ4_K:
      return of_block(BlockType::kQ4_K);
    case InferenceType::kQ4_1:
      return of_block(BlockType::kQ4_1);
    case InferenceType::kQ4_0:
      return of_block(BlockType::kQ4_0);
    case InferenceType::kFp32:
      return 4;
    case InferenceType::kBf16:
    case InferenceType::kFp16:
      return 2;
    case InferenceType::kFp8:
    case InferenceType::kInt8:
      return 1;
  }
  fail<InternalError>("unknown type");
}

InferenceAnswer predict_inference(const ModelShape& m, std::int64_t input, std::int64_t output,
                                  const InferencePoint& point, const Cluster& cluster, double memory) {
  check_split(m, point);
  const InferenceConstants k = inference_constants(cluster);
  require<ConfigError>(input >= 1 && output >= 1 && point.batch >= 1,
                       "an input of {} tokens, an output of {}, a batch of {}: expected at least 1 of each",
                       input, output, point.batch);
  const InferenceLayers layers(m, point, cluster, k);
  const double parts = real(std::min(point.batch, point.pp)), sequences = real(point.batch) / parts;
  const double stages = real(point.pp), per_stage = real(m.layers) / stages;
  InferenceAnswer a;
  a.point = point;
  a.type = name_of_type(point.weights);
  // Seconds of a layer: all of a decoder are alike.
  struct OfLayer {
    double encoder = 0, other = 0;
  };
  OfLayer prompt, token;
  const bool pairs = m.encoder_layers > 0;
  const double read = real(input), context = (pairs ? 0 : read) + real(output) / 2;
  if (pairs) {
    prompt = {layers.encoder(sequences * read, sequences * read * read),
              layers.cross_keys(sequences * read) + layers.decoder(sequences, k.token_gemm) +
                  layers.read(sequences * (read + 1))};
    token.other = layers.decoder(sequences, k.token_gemm) + layers.read(sequences * (read + context));
  } else {
    prompt.other = layers.prompt(sequences, read);
    token.other = layers.token(sequences, context);
  }
  const double others = real(m.layers - m.encoder_layers);
  // A part of the batch through all stages, and in the slowest.
  const auto through = [&](const OfLayer& of, double tokens) {
    return real(m.encoder_layers) * of.encoder + others * of.other + stages * layers.send(tokens);
  };
  const auto slowest = [&](const OfLayer& of, double tokens) {
    double seconds = 0;
    for (double begin = 0; begin < real(m.layers); begin += per_stage) {
      const double of_encoder = std::clamp(real(m.encoder_layers) - begin, 0.0, per_stage);
      seconds = std::max(seconds, of_encoder * of.encoder + (per_stage - of_encoder) * of.other);
    }
    return seconds + layers.send(tokens);
  };
  a.first_token = through(prompt, sequences * read) + (parts - 1) * slowest(prompt, sequences * read) +
                  parts * layers.head(sequences);
  // Stages take turns on the parts of the batch: a token of all parts takes as long as one part takes through
  // all.
  a.per_token =
      std::max(through(token, sequences), parts * slowest(token, sequences)) + parts * layers.head(sequences);
  a.latency = a.first_token + real(output - 1) * a.per_token;
  const double devices = real(point.tp * point.pp);
  a.sequences_per_second = real(point.batch) / a.latency / devices;
  a.tokens_per_second = a.sequences_per_second * real(output);
  // The stage that holds the head, or the embedding, needs most.
  const double longest = std::ceil(per_stage);
  a.weight_bytes = weight_bytes(m, point, longest);
  a.cache_bytes = std::min(longest, others) * (layers.cache_bytes(real(point.batch * (input + output))) +
                                               layers.state_bytes(real(point.batch)));
  const double pass = sequences * real(input);
  a.work_bytes = 2 * pass * (4 * real(m.hidden) + real(m.gated ? 2 * m.ffn : m.ffn) / real(point.tp)) +
                 4 * real(point.batch * m.vocabulary);
  a.fits = a.bytes() <= memory;
  return a;
}

InferenceType cache_type_of(InferenceType weights) {
  switch (weights) {
    case InferenceType::kFp32:
    case InferenceType::kBf16:
    case InferenceType::kFp8:
      return weights;
    case InferenceType::kInt8:
      return InferenceType::kBf16;
    default:  // fp16, and those of GGUF files
      return InferenceType::kFp16;
  }
}

InferenceType cache_type_of(DType type) {
  switch (type) {
    case DType::kF32:
      return InferenceType::kFp32;
    case DType::kF16:
      return InferenceType::kFp16;
    case DType::kU8:
      return InferenceType::kInt8;
    default:
      return InferenceType::kBf16;
  }
}

struct ServingParts::State {
  State(const ModelShape& m, const InferencePoint& p, const Cluster& c)
      : model(m), point(p), constants(inference_constants(c)), layers(model, point, c, constants) {}
  const ModelShape model;
  const InferencePoint point;
  const InferenceConstants constants;
  const InferenceLayers layers;
};

ServingParts::ServingParts(const ModelShape& model, const InferencePoint& point, const Cluster& cluster)
    : state_(std::make_unique<State>(model, point, cluster)) {
  check_split(model, point);
}

ServingParts::~ServingParts() = default;

double ServingParts::seconds(std::int64_t tokens, std::int64_t scored) const {
  const InferenceLayers& l = state_->layers;
  const auto n = real(tokens), answers = real(scored);
  if (const std::int64_t of_decoder = state_->model.cross_layers(); of_decoder > 0)
    return real(of_decoder) * l.decoder(n, state_->constants.token_gemm) + l.head(answers);
  return real(state_->model.layers) * (l.pass(n) + l.states(answers)) + l.head(answers);
}

double ServingParts::seconds_of_sources(std::int64_t tokens) const {
  const ModelShape& m = state_->model;
  return real(m.encoder_layers) * state_->layers.encoder(real(tokens), 0) +
         real(m.cross_layers()) * state_->layers.cross_keys(real(tokens));
}

double ServingParts::seconds_per_token_read() const { return caching_layers() * state_->layers.read(1); }

double ServingParts::seconds_per_pair() const { return caching_layers() * state_->layers.pairs(1); }

double ServingParts::seconds_per_source_pair() const {
  return real(state_->model.encoder_layers) * state_->layers.encoder_pairs(1);
}

double ServingParts::weight_bytes() const {
  return plan::weight_bytes(state_->model, state_->point, real(state_->model.layers));
}

double ServingParts::caching_layers() const {
  return real(state_->model.layers - state_->model.encoder_layers);
}

double ServingParts::cache_bytes_per_token() const {
  return caching_layers() * state_->layers.cache_bytes(1);
}

InferenceResult plan_inference(const InferenceRequest& r, const Cluster& cluster) {
  std::vector<std::int64_t> tensor = r.tensor, pipeline = r.pipeline;
  const bool linked = cluster.links.network_bandwidth_gbs.value_or(cluster.links.island_bandwidth_gbs) > 0;
  const auto alone = [&](const std::vector<std::int64_t>& degrees) {
    return std::ranges::all_of(degrees, [](std::int64_t degree) { return degree == 1; });
  };
  require<ConfigError>(linked || (alone(tensor) && alone(pipeline)),
                       "cluster '{}' has one device, without links to others: the degrees can be 1 only",
                       cluster.name);
  if (!linked) tensor = pipeline = {1};
  if (tensor.empty())
    for (std::int64_t tp = 1; tp <= std::max<std::int64_t>(8, cluster.links.devices_per_node); tp *= 2)
      if (r.model.heads % tp == 0) tensor.push_back(tp);
  if (pipeline.empty())
    for (const std::int64_t pp : {1, 2, 3, 4, 8})
      if (pp <= r.model.layers) pipeline.push_back(pp);
  std::vector<InferenceAnswer> grid;
  for (const InferenceType type : r.types)
    for (const std::int64_t tp : tensor)
      for (const std::int64_t pp : pipeline)
        for (const std::int64_t batch : r.batches)
          grid.push_back(predict_inference(r.model, r.input, r.output,
                                           {tp, pp, batch, type, r.cache.value_or(cache_type_of(type))},
                                           cluster, r.memory));
  return choose_inference(std::move(grid), r.most_latency);
}

InferenceResult choose_inference(std::vector<InferenceAnswer> grid, std::optional<double> most_latency) {
  require<ConfigError>(!grid.empty(), "the grid is empty: give batches, and degrees of parallelism that fit");
  InferenceResult result;
  result.grid = std::move(grid);
  std::vector<InferenceAnswer> fitting;
  std::copy_if(result.grid.begin(), result.grid.end(), std::back_inserter(fitting),
               [](const InferenceAnswer& a) { return a.fits; });
  std::sort(fitting.begin(), fitting.end(), [](const auto& a, const auto& b) {
    return a.latency != b.latency ? a.latency < b.latency : a.sequences_per_second > b.sequences_per_second;
  });
  double most = 0;
  for (const InferenceAnswer& a : fitting) {
    if (a.sequences_per_second > most) {
      most = a.sequences_per_second;
      result.front.push_back(a);
    }
    if (most_latency && a.latency > *most_latency) continue;
    if (!result.best || a.sequences_per_second > result.best->sequences_per_second) result.best = a;
  }
  return result;
}

std::string to_text(const InferenceResult& result, const InferenceRequest& r, const std::string& place) {
  const std::string head =
      "  tp  pp  batch  type    latency ms  first ms  ms per token   answers/s   tokens/s     KV GB    all "
      "GB\n"
      "                                                              per device  per device per device  per "
      "device\n";
  std::string out = fmt::format("{} tokens in, {} out, on {}\n{}", r.input, r.output, place, head);
  for (const auto& a : result.grid) out += row(a);
  out += "\nPareto front (nothing has both lower latency and higher throughput per device):\n" + head;
  for (const auto& a : result.front) out += row(a);
  if (result.best) {
    out += r.most_latency ? fmt::format("\nmost throughput within {:.0f} ms:\n", *r.most_latency * 1e3)
                          : std::string("\nmost throughput per device:\n");
    out += row(*result.best);
  } else if (result.front.empty()) {
    const auto least = std::min_element(result.grid.begin(), result.grid.end(),
                                        [](const auto& a, const auto& b) { return a.bytes() < b.bytes(); });
    out += fmt::format("\nnothing fits: the smallest, TP{} PP{} batch {}, needs {:.1f} GB of each device\n",
                       least->point.tp, least->point.pp, least->point.batch, least->bytes() / 1e9);
  } else {
    out += fmt::format("\nnothing answers within {:.0f} ms: the fastest takes {:.0f} ms\n",
                       *r.most_latency * 1e3, result.front.front().latency * 1e3);
  }
  return out;
}

namespace {

nlohmann::ordered_json json_of(const InferenceAnswer& a) {
  return {{"tp", a.point.tp},
          {"pp", a.point.pp},
          {"batch", a.point.batch},
          {"dtype", a.type},
          {"latency_ms", a.latency * 1e3},
          {"first_token_ms", a.first_token * 1e3},
          {"per_token_ms", a.per_token * 1e3},
          {"sequences_per_second_per_device", a.sequences_per_second},
          {"tokens_per_second_per_device", a.tokens_per_second},
          {"weight_bytes", a.weight_bytes},
          {"kv_bytes", a.cache_bytes},
          {"total_bytes", a.bytes()},
          {"fits", a.fits}};
}

}  // namespace

std::string to_json(const InferenceResult& result) {
  nlohmann::ordered_json grid = nlohmann::ordered_json::array(), front = nlohmann::ordered_json::array();
  for (const auto& a : result.grid) grid.push_back(json_of(a));
  for (const auto& a : result.front) front.push_back(json_of(a));
  return nlohmann::ordered_json{{"grid", grid},
                                {"front", front},
                                {"best", result.best ? json_of(*result.best) : nlohmann::ordered_json()}}
      .dump();
}

std::string to_csv(const InferenceResult& result) {
  CsvTable table;
  table.header = {"TP",
                  "PP",
                  "BS",
                  "Latency [ms]",
                  "Throughput per GPU [samples/sec/gpu]",
                  "Type",
                  "First Token [ms]",
                  "Per Token [ms]",
                  "KV GB",
                  "Memory GB",
                  "Fits"};
  for (const auto& a : result.grid)
    table.rows.push_back(
        {std::to_string(a.point.tp), std::to_string(a.point.pp), std::to_string(a.point.batch),
         fmt::format("{:.3f}", a.latency * 1e3), fmt::format("{:.4f}", a.sequences_per_second), a.type,
         fmt::format("{:.3f}", a.first_token * 1e3), fmt::format("{:.3f}", a.per_token * 1e3),
         fmt::format("{:.3f}", a.cache_bytes / 1e9), fmt::format("{:.3f}", a.bytes() / 1e9),
         a.fits ? "yes" : "no"});
  return write_csv(table);
}

}  // namespace stoa::plan
