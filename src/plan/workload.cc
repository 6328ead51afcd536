#include "plan/workload.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "model/model_spec.h"
#include "run/offload.h"

namespace stoa::plan {
namespace {

double softmax_parameters(const ModelShape& m) {
  if (m.latent_rank > 0) {
    const std::int64_t queries = m.heads * m.head_size, values = m.heads * m.value_size,
                       keys = m.heads * (m.head_size - m.rotated);
    return static_cast<double>((m.query_rank > 0 ? m.query_rank * (m.hidden + queries) : m.hidden * queries) +
                               m.hidden * (m.latent_rank + m.rotated) + m.latent_rank * (keys + values) +
                               values * m.hidden);
  }
  return static_cast<double>(m.hidden * m.head_size * ((m.output_gate ? 3 : 2) * m.heads + 2 * m.kv_heads));
}

double linear_attention_parameters(const ModelShape& m) {
  return static_cast<double>(m.hidden * (m.linear_keys + 3 * m.linear_values + 2 * m.linear_heads));
}

double state_parameters(const ModelShape& m) {
  constexpr double kConvolution = 5;  // four weights and a bias per column
  const std::int64_t inner = m.state_inner();
  return static_cast<double>(m.hidden * (m.state_columns() + inner) + inner + 3 * m.state_heads) +
         kConvolution * static_cast<double>(inner + 2 * m.state_groups * m.state_size);
}

double attention_parameters(const ModelShape& m) {
  return m.softmax_share() * softmax_parameters(m) + m.linear_share() * linear_attention_parameters(m) +
         m.state_share() * state_parameters(m);
}

double ffn_parameters(const ModelShape& m, std::int64_t width) {
  return static_cast<double>(m.hidden * width * (m.gated ? 3 : 2));
}

double small_parameters(const ModelShape& m) {  // norms and biases
  return m.branches() * static_cast<double>(m.biases ? 13 * m.hidden : 2 * m.hidden);
}

double gated_experts(const ModelShape& m, std::int64_t experts) {
  return static_cast<double>(experts) * ffn_parameters(m, m.expert_ffn) + ffn_parameters(m, m.shared_ffn) +
         static_cast<double>(m.experts * m.hidden);
}

}  // namespace

double ModelShape::layer_parameters(bool with_experts) const {
  const double rest = attention_parameters(*this) + small_parameters(*this);
  return rest + (with_experts ? gated_experts(*this, experts) : mlp_share() * ffn_parameters(*this, ffn));
}

double ModelShape::active_layer_parameters(bool with_experts) const {
  const double rest = attention_parameters(*this) + small_parameters(*this);
  return rest + (with_experts ? gated_experts(*this, top_k) : mlp_share() * ffn_parameters(*this, ffn));
}

double ModelShape::cross_parameters() const {
  return static_cast<double>(4 * hidden * heads * head_size + (biases ? 4 : 0) * hidden + hidden);
}

double ModelShape::expert_parameters() const {
  return static_cast<double>(experts) * ffn_parameters(*this, expert_ffn);
}

double ModelShape::embedding_parameters() const {
  return static_cast<double>((vocabulary + (positions ? sequence : 0)) * hidden);
}

// A layer as the last of the model, a projection of two streams to one, three norms.
double ModelShape::mtp_parameters() const {
  return layer_parameters(expert_layers > 0) + static_cast<double>(2 * hidden * hidden + 3 * hidden);
}

double ModelShape::parameters() const {
  return static_cast<double>(expert_layers) * layer_parameters(true) +
         static_cast<double>(layers - expert_layers) * layer_parameters(false) + embedding_parameters() +
         static_cast<double>(mtp_layers) * mtp_parameters() +
         static_cast<double>(cross_layers()) * cross_parameters() +
         (tied ? 0.0 : static_cast<double>(vocabulary * hidden)) + static_cast<double>(2 * hidden);
}

bool is_v(const std::string& schedule) {
  return schedule == "zb-v" || schedule == "dualpipev" || schedule == "v-half" || schedule == "v-min";
}

std::vector<std::int64_t> Workload::split() const {
  if (!chunk_layers.empty()) return chunk_layers;
  const std::int64_t chunks = pp * vpp;
  std::vector<std::int64_t> layers(static_cast<std::size_t>(chunks), model.layers / chunks);
  const std::int64_t rest = model.layers % chunks;
  if (rest == 0) return layers;
  // The ends carry embedding and head: the longer chunks are those between them, from the last backwards.
  for (std::int64_t given = 0, at = chunks - 2; given < rest; ++given, --at) {
    if (at < 1) at = chunks - 1;
    ++layers[static_cast<std::size_t>(std::max<std::int64_t>(at, 0))];
  }
  return layers;
}

double Workload::busiest_load() const {
  if (!model.expert_capacity) return imbalance;
  return model.expert_padding ? *model.expert_capacity : std::min(imbalance, *model.expert_capacity);
}

std::string Workload::schedule_name() const {
  return !schedule.empty() ? schedule : vpp > 1 ? "interleaved" : "1f1b";
}

std::vector<std::int64_t> Workload::backward_layers() const {
  std::vector<std::int64_t> layers = split();
  std::int64_t end = 0;
  for (std::int64_t& chunk : layers) {
    end += chunk;
    chunk = std::clamp<std::int64_t>(end - trained.first_layer, 0, chunk);
  }
  return layers;
}

std::vector<std::int64_t> Workload::layers_of_ranks(std::int64_t begin, std::int64_t end) const {
  const std::vector<std::int64_t> chunks = split();
  std::vector<std::int64_t> layers(static_cast<std::size_t>(pp), 0);
  std::int64_t first = 0;  // of the chunk
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const std::int64_t last = first + chunks[c];
    layers[static_cast<std::size_t>(rank_of_chunk(static_cast<std::int64_t>(c)))] +=
        std::max<std::int64_t>(0, std::min(last, end) - std::max(first, begin));
    first = last;
  }
  return layers;
}

std::int64_t Workload::rank_of_chunk(std::int64_t chunk) const {
  return is_v(schedule) && chunk >= pp ? 2 * pp - 1 - chunk : chunk % pp;
}

std::vector<std::int64_t> Workload::offloaded_layers() const {
  const std::vector<std::int64_t> chunks = split();
  if (!offload.cpu_offloading) return std::vector<std::int64_t>(chunks.size(), 0);
  std::vector<run::PlacedChunk> placed;
  for (std::size_t c = 0; c < chunks.size(); ++c)
    placed.push_back({static_cast<int>(c), static_cast<int>(rank_of_chunk(static_cast<std::int64_t>(c))), 0,
                      chunks[c], false, false});
  std::vector<std::int64_t> layers = run::offloaded_layers(placed, offload);
  const std::vector<std::int64_t> backward = backward_layers();
  for (std::size_t c = 0; c < layers.size(); ++c)
    layers[c] = std::max<std::int64_t>(0, layers[c] - (chunks[c] - backward[c]));
  return layers;
}

std::int64_t Workload::head_rank() const { return is_v(schedule) ? 0 : pp - 1; }

std::string Workload::text() const {
  std::string out;
  const auto axis = [&](const char* name, std::int64_t degree) {
    if (degree > 1) out += fmt::format("{}{} ", name, degree);
  };
  axis("TP", tp);
  axis("CP", cp);
  axis("EP", ep);
  axis("PP", pp);
  axis("VPP", vpp);
  out += fmt::format("DP{}", dp);
  if (sequence_parallel && tp > 1) out += " SP";
  if (zero_stage > 0) out += fmt::format(" ZeRO-{}", zero_stage);
  out += fmt::format(", microbatch {}", micro_batch);
  constexpr const char* kNames[] = {"", ", selective recompute", ", operators recomputed",
                                    ", full recompute"};
  out += kNames[static_cast<int>(recompute)];
  if (recompute != Recompute::kNone && recomputed_share < 1)
    out += fmt::format(" of {:.0f} % of layers", 100 * recomputed_share);
  if (offload.cpu_offloading) {
    const std::vector<std::int64_t> layers = layers_of_ranks();
    out += fmt::format(", {} layers of a rank offloaded",
                       offload.layers_of(*std::max_element(layers.begin(), layers.end())));
  }
  return out;
}

void validate(const Workload& w) {
  const ModelShape& m = w.model;
  const auto positive = [](const char* name, std::int64_t value) {
    require<ConfigError>(value >= 1, "{} is {}, expected at least 1", name, value);
  };
  positive("layers", m.layers);
  positive("hidden size", m.hidden);
  positive("attention heads", m.heads);
  positive("vocabulary", m.vocabulary);
  positive("sequence length", m.sequence);
  positive("tensor_model_parallel_size", w.tp);
  positive("pipeline_model_parallel_size", w.pp);
  positive("virtual_pipeline_model_parallel_size", w.vpp);
  positive("context_parallel_size", w.cp);
  positive("expert_model_parallel_size", w.ep);
  positive("data-parallel size", w.dp);
  positive("micro_batch_size", w.micro_batch);
  require<ConfigError>(!m.single_branches() || m.state_heads % w.tp == 0,
                       "{} heads of state-space layers are not divisible by tensor_model_parallel_size {}",
                       m.state_heads, w.tp);
  require<ConfigError>(m.heads >= w.tp,
                       "{} attention heads are fewer than tensor_model_parallel_size {}: lower it", m.heads,
                       w.tp);
  require<ConfigError>(w.pp * w.vpp <= m.layers || !w.chunk_layers.empty(),
                       "{} layers are fewer than {} pipeline ranks x {} chunks: lower one of them", m.layers,
                       w.pp, w.vpp);
  const std::int64_t step = w.dp * w.micro_batch;
  require<ConfigError>(
      w.global_batch >= step && w.global_batch % step == 0,
      "global_batch_size {} is not a multiple of {} data-parallel ranks x micro_batch_size {}; the "
      "nearest is {}",
      w.global_batch, w.dp, w.micro_batch,
      std::max<std::int64_t>(1, (w.global_batch + step / 2) / step) * step);
  require<ConfigError>(w.ep == 1 || m.experts > 0,
                       "expert_model_parallel_size is {}, but the model has no experts", w.ep);
  require<ConfigError>(m.experts == 0 || m.experts % w.ep == 0,
                       "{} experts cannot be split over expert_model_parallel_size {}: it must divide them",
                       m.experts, w.ep);
  const std::int64_t expert_ranks = w.dp * w.cp * w.tp / w.expert_degree();
  require<ConfigError>(expert_ranks % w.ep == 0 || w.ep == 1,
                       "expert_model_parallel_size {} must divide the {} ranks of a stage over which experts "
                       "may be distributed",
                       w.ep, expert_ranks);
  require<ConfigError>((w.dp * w.cp) % w.optimizer_instances == 0,
                       "{} data- and context-parallel ranks cannot be split into the {} groups of "
                       "num_distributed_optimizer_instances",
                       w.dp * w.cp, w.optimizer_instances);
  if (!w.chunk_layers.empty()) {
    const auto sum = std::accumulate(w.chunk_layers.begin(), w.chunk_layers.end(), std::int64_t{0});
    require<ConfigError>(static_cast<std::int64_t>(w.chunk_layers.size()) == w.pp * w.vpp && sum == m.layers,
                         "{} chunks with {} layers are given, expected {} chunks with {} layers",
                         w.chunk_layers.size(), sum, w.pp * w.vpp, m.layers);
  }
  static_cast<void>(w.offloaded_layers());
}

ModelShape shape_of(const model::ModelConfig& c, std::int64_t vocabulary) {
  ModelShape m;
  m.layers = c.num_layers;
  m.hidden = c.hidden_size;
  m.heads = c.num_attention_heads;
  m.kv_heads = c.query_groups();
  m.head_size = c.head_size();
  if (const model::LatentConfig& l = c.latent; l.multi_latent_attention) {
    m.query_rank = l.q_lora_rank.value_or(0);
    m.latent_rank = l.kv_lora_rank;
    m.rotated = l.qk_pos_emb_head_dim;
    m.value_size = l.v_head_dim;
  }
  if (const model::LinearAttentionConfig& l = c.linear; l.any()) {
    for (std::int64_t layer = 0; layer < m.layers; ++layer) m.linear_layers += l.is_linear(layer);
    m.linear_keys = 2 * l.linear_num_key_heads * l.linear_key_head_dim;
    m.linear_values = l.linear_num_value_heads * l.linear_value_head_dim;
    m.linear_heads = l.linear_num_value_heads;
    m.linear_key_size = l.linear_key_head_dim;
  }
  m.output_gate = c.attention_output_gate;
  m.ffn = c.ffn_size();
  m.gated = model::is_gated(c.activation);
  const std::int64_t multiple = c.make_vocab_size_divisible_by;
  m.vocabulary = (vocabulary + multiple - 1) / multiple * multiple;
  m.sequence = c.encoder_seq_length;
  m.causal = c.kind != model::ModelKind::kBert;
  m.tied = c.share_embeddings_and_output_weights;
  m.positions = c.position_embedding_type == model::PositionEmbedding::kLearnedAbsolute;
  m.dropout = std::max(c.hidden_dropout, c.attention_dropout);
  m.biases = c.has_mlp_bias();
  m.window = c.window_size;
  if (c.source_length() > 0) {
    m.encoder_layers = c.encoder_layers();
    m.target = c.sample_length() - c.source_length();
  }
  if (c.moe.num_moe_experts) {
    m.experts = *c.moe.num_moe_experts;
    m.top_k = c.moe.moe_router_topk;
    m.expert_ffn = c.moe_ffn_size();
    m.shared_ffn = c.moe.moe_shared_expert_intermediate_size.value_or(0);
    m.expert_groups = c.moe.moe_router_num_groups.value_or(0);
    m.chosen_groups = c.moe.moe_router_group_topk.value_or(0);
    m.expert_capacity = c.moe.moe_expert_capacity_factor;
    m.expert_padding = c.moe.moe_pad_expert_input_to_capacity;
    for (std::int64_t layer = 0; layer < m.layers; ++layer) m.expert_layers += c.moe.has_experts(layer);
  }
  return m;
}

TrainedShare trained_share(const model::ModelConfig& config, std::int64_t vocabulary) {
  if (config.freeze.empty() && !config.peft.active()) return {};
  const model::ActiveWeights active = model::active_weights(model::resolve_model(config, vocabulary));
  TrainedShare out;
  out.first_layer = active.first_trained;
  model::ActiveWeights::Part layers;
  for (std::int64_t layer = std::max<std::int64_t>(0, out.first_layer); layer < config.num_layers; ++layer) {
    layers.all += active.layers[static_cast<std::size_t>(layer)].all;
    layers.trained += active.layers[static_cast<std::size_t>(layer)].trained;
  }
  out.layers = layers.trained_share();
  out.embedding = active.embedding.trained_share();
  out.head = config.ties_head() ? out.embedding : active.head.trained_share();
  return out;
}

Workload workload_of(const model::ModelConfig& config, const run::Layout& layout, std::int64_t vocabulary,
                     std::int64_t micro_batch, std::int64_t global_batch, Format format) {
  Workload w;
  w.model = shape_of(config, vocabulary);
  w.trained = trained_share(config, vocabulary);
  w.tp = layout.grid.degree(grid::Axis::kTensor);
  w.pp = layout.grid.degree(grid::Axis::kPipeline);
  w.cp = layout.grid.degree(grid::Axis::kContext);
  const grid::RankGrid experts = layout.grid.experts();
  w.ep = experts.degree(grid::Axis::kExpert);
  if (experts.degree(grid::Axis::kTensor) != w.tp) w.expert_tp = experts.degree(grid::Axis::kTensor);
  w.dp = layout.data_ranks();
  w.schedule = layout.schedule;
  const auto chunks = run::place_chunks(layout, config.num_layers);
  w.vpp = static_cast<std::int64_t>(chunks.size()) / w.pp;
  for (const auto& chunk : chunks) w.chunk_layers.push_back(chunk.layers);
  w.micro_batch = micro_batch;
  w.global_batch = global_batch;
  w.sequence_parallel = layout.sequence_parallel;
  w.zero_stage = layout.zero_stage;
  w.format = format;
  w.fp8_recipe = config.fp8.fp8_recipe;
  w.software.overlap_gradients = layout.overlap_grad_reduce;
  w.offload = config.recompute.offload;
  switch (config.recompute.granularity) {
    case model::RecomputeGranularity::kNone:
      break;
    case model::RecomputeGranularity::kSelective:
      w.recompute = Recompute::kSelective;
      break;
    case model::RecomputeGranularity::kFull:
      w.recompute = Recompute::kFull;
      if (config.recompute.method == model::RecomputeMethod::kBlock && config.recompute.num_layers) {
        std::int64_t again = 0;
        for (const auto layers : w.chunk_layers) again += std::min(layers, *config.recompute.num_layers);
        w.recomputed_share = static_cast<double>(again) / static_cast<double>(w.model.layers);
      }
      break;
  }
  return w;
}

void add_estimated(const model::EstimatedConfig& e, Workload& w) {
  if (ModelShape& m = w.model; !e.hybrid_override_pattern.empty()) {
    m.state_layers = e.layers_of('M');
    m.attention_layers = e.layers_of('*');
    m.mlp_layers = e.layers_of('-');
    m.state_head_size = e.mamba_head_dim;
    m.state_heads = e.mamba_num_heads.value_or(2 * m.hidden / e.mamba_head_dim);
    m.state_size = e.mamba_state_dim;
    m.state_groups = e.mamba_num_groups;
  }
  w.model.mtp_layers = e.mtp_num_layers;
  w.fp8_parameters = e.fp8_params;
  w.replicas_outermost = e.use_tp_pp_dp_mapping;
  w.optimizer_instances = e.num_distributed_optimizer_instances;
  w.two_microbatches = w.software.overlap_experts = e.overlap_moe_expert_parallel_comm;
  for (const model::RecomputedModule module : e.recompute_modules) {
    w.modules.named = true;
    w.modules.up_projections |= module == model::RecomputedModule::kUpProjections;
    w.modules.mlp |= module == model::RecomputedModule::kMlp;
    w.modules.experts |= module == model::RecomputedModule::kMoe;
    w.modules.shared_experts |= module == model::RecomputedModule::kSharedExperts;
  }
  const auto of = [](model::StateType type) { return static_cast<double>(model::bytes_of(type)); };
  // Less than the usual state of 12 bytes.
  w.software.optimizer_bytes -= 12 - of(e.main_params_dtype) - of(e.exp_avg_dtype) - of(e.exp_avg_sq_dtype);
  w.software.gradient_bytes = std::min(w.software.gradient_bytes, of(e.main_grads_dtype));
}

namespace {

// Share of the layers that run backward.
double backward_share(const Workload& w) {
  const std::int64_t layers = w.model.layers;
  return layers > 0 ? 1 - static_cast<double>(std::clamp<std::int64_t>(w.trained.first_layer, 0, layers)) /
                              static_cast<double>(layers)
                    : 1;
}

// Multiplications of a sample's forward pass: with weights of layers, without norms; with the head; for
// scores and values in `softmax` layers, where masks leave them, and for states of state-space layers.
struct SampleProducts {
  double layers = 0, head = 0, attention = 0;
};

SampleProducts products_of(const ModelShape& m, std::int64_t softmax) {
  const double inner = real(m.heads * m.head_size), s = real(m.sequence), t = real(m.target),
               matrix = real(m.hidden) * inner,
               dense = m.active_layer_parameters(false) - small_parameters(m);
  if (m.encoder_layers > 0) {
    const double encoder = real(m.encoder_layers), decoder = real(m.cross_layers());
    return {encoder * s * dense + decoder * (t * dense + 2 * (s + t) * matrix),
            t * real(m.vocabulary * m.hidden),
            encoder * 2 * s * s * inner + decoder * (t * t + 2 * s * t) * inner};
  }
  const double further = real(m.mtp_layers),
               experts = m.expert_layers > 0 ? m.active_layer_parameters(true) - small_parameters(m) : 0,
               last = m.expert_layers > 0 ? experts : dense;
  return {s * (real(m.expert_layers) * experts + real(m.layers - m.expert_layers) * dense +
               further * (last + 2 * real(m.hidden * m.hidden))),
          s * (1 + further) * real(m.vocabulary * m.hidden),
          s * ((real(softmax) + further) * inner * s * (m.causal ? 1 : 2) +
               real(m.state_layers) * state_products(m))};
}

}  // namespace

double state_products(const ModelShape& m) {
  constexpr double kChunk = 128;  // tokens whose states are computed as matrices (2405.21060, section 6)
  const double inner = static_cast<double>(m.state_inner()), size = static_cast<double>(m.state_size);
  return kChunk / 2 * (static_cast<double>(m.state_groups) * size + inner) + 2 * inner * size;
}

double model_flops(const Workload& w) {
  const ModelShape& m = w.model;
  const SampleProducts of = products_of(m, m.softmax_layers());
  // Forward, gradient of the input, gradient of the weights (attention: of its other input).
  const TrainedShare& trained = w.trained;
  const double backward = backward_share(w);
  return real(w.global_batch) * 2 *
         (of.layers * (1 + backward * (1 + trained.layers)) +
          of.head * (1 + (trained.first_layer < m.layers ? 1 : 0) + trained.head) +
          of.attention * (1 + 2 * backward));
}

double hardware_flops(const Workload& w) {
  const ModelShape& m = w.model;
  const SampleProducts of = products_of(m, m.single_branches() ? m.attention_layers : m.layers);
  double again = 0;
  if (w.recompute == Recompute::kSelective) again = of.attention;
  if (w.recompute == Recompute::kOperators) again = 0.5 * of.layers;
  if (w.recompute == Recompute::kFull) again = of.layers + of.attention;
  return model_flops(w) + real(w.global_batch) * 2 * again * w.recomputed_share * backward_share(w);
}

}  // namespace stoa::plan
