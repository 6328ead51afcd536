#include "plan/layer_time.h"

#include <algorithm>
#include <cmath>

#include "plan/workload.h"

namespace stoa::plan {
namespace {

// Device and host work concurrently; the longer one counts, with a smooth transition if they are similar.
double overlapped(double device, double host) {
  return std::cbrt(device * device * device + host * host * host);
}

// The part of `comm` that is not hidden by `work`; a share `exposed` can never be hidden.
double visible(double comm, double work, double exposed) {
  return exposed * comm + std::max(0.0, (1 - exposed) * comm - work);
}

}  // namespace

KindTime KindTime::operator+(const KindTime& o) const {
  return {linear + o.linear, attention + o.attention, elementwise + o.elementwise,
          host + o.host,     tensor + o.tensor,       context + o.context,
          expert + o.expert};
}

KindTime KindTime::operator*(double f) const {
  return {linear * f, attention * f, elementwise * f, host * f, tensor * f, context * f, expert * f};
}

LayerTime LayerTime::operator+(const LayerTime& o) const {
  return {forward + o.forward, backward_input + o.backward_input, backward_weight + o.backward_weight,
          again + o.again};
}

LayerTime LayerTime::operator*(double f) const {
  return {forward * f, backward_input * f, backward_weight * f, again * f};
}

LayerModel::LayerModel(const Workload& w, const Cluster& c, const Constants& k)
    : w_(w), k_(k), comm_(c, k), plain_(w.format == Format::kFp8 ? Format::kBf16 : w.format) {
  const bool fp8 = w.format == Format::kFp8;
  peak16_ = c.peak(plain_) * k[Constant::kGemm];
  peak_ = fp8 ? c.peak(w.format) * k[Constant::kGemmFp8] : peak16_;
  older_ = c.device.older_instructions;
  memory_ = c.device.memory_bandwidth_gbs * 1e9 * k[Constant::kMemory];
  // A GEMM slows down as its arithmetic intensity approaches the machine's ratio of FLOP/s to bytes/s.
  constexpr double kBalance = 153;  // A100 80GB in 16 bit
  const double bandwidth = c.device.memory_bandwidth_gbs * 1e9;
  ramp16_ = k[Constant::kGemmRamp] * c.peak(plain_) / bandwidth / kBalance;
  ramp_ = k[Constant::kGemmRamp] * c.peak(w.format) / bandwidth / kBalance;
  const ModelShape& m = w.model;
  const auto on_rank = [&](std::int64_t sequence) { return real(w.micro_batch * sequence) / real(w.cp); };
  rows_ = {on_rank(m.sequence), m.sequence, m.causal && m.encoder_layers == 0};
  targets_ = {on_rank(m.target), m.target, true, rows_.tokens, m.sequence};
}

double LayerModel::product(double m, double n, double k, Format format) const {
  if (m <= 0 || n <= 0 || k <= 0) return 0;
  const bool fp8 = format == Format::kFp8;
  return 2 * m * n * k / (fp8 ? peak_ : peak16_) * (1 + (fp8 ? ramp_ : ramp16_) * (1 / m + 1 / n + 1 / k));
}

LayerTime LayerModel::layer(bool experts, const Rows& of) const {
  const ModelShape& m = w_.model;
  const Software& s = w_.software;
  const double n = of.tokens, h = real(m.hidden), d = real(m.head_size), t = real(w_.tp);
  const double q = real(w_.rank_heads()) * d;
  const double kv = real(w_.rank_groups()) * d;
  const double kv_all = std::min(q, kv);
  LayerTime out;

  // Linear layers: forward [n, in] x [in, out]; gradients of the input and of the weights have the same FLOPs
  // and different shapes.
  double forward = 0, data = 0, weight = 0, cast = 0, weights = 0;
  double from_latents = 0;  // forward
  const auto add = [&](double rows, double in, double width, double copies) {
    forward += copies * product(rows, width, in, w_.format);
    data += copies * product(rows, in, width, w_.format);
    weight += copies * product(in, width, rows, w_.format);
    cast += copies * rows * (in + width);
    weights += copies * in * width;
  };
  if (m.latent_rank > 0) {
    // Latents of this rank's rows of the stream; heads of all rows.
    const double rows = w_.sequence_parallel ? n / t : n, heads = real(w_.rank_heads()),
                 values = heads * real(m.value_size);
    add(rows, h, real(m.query_rank + m.latent_rank + m.rotated), 1);
    const double before_latents = forward;
    add(n, m.query_rank > 0 ? real(m.query_rank) : h, q, 1);
    add(n, real(m.latent_rank), heads * real(m.head_size - m.rotated) + values, 1);
    from_latents = forward - before_latents;
    add(n, values, h, 1);
  } else {
    const double linear = m.linear_share(), values = real(m.linear_values) / t, softmax = m.softmax_share();
    if (softmax > 0) {
      add(n, h, (m.output_gate ? 2 : 1) * q + 2 * kv_all, softmax);
      add(n, q, h, softmax);
    }
    if (m.state_layers > 0) {
      add(n, h, real(m.state_columns()) / t, m.state_share());
      add(n, real(m.state_inner()) / t, h, m.state_share());
    }
    if (linear > 0) {
      add(n, h, real(m.linear_keys + 2 * m.linear_heads) / t + 2 * values, linear);
      add(n, values, h, linear);
    }
  }
  if (of.sources > 0) {
    add(n, h, q, 1);
    add(of.sources, h, 2 * q, 1);
    add(n, q, h, 1);
  }
  const double before_ffn = forward;
  double width = real(m.ffn) / t, expert_tokens = 0, shared = 0;
  if (experts) {
    const double expert_tp = w_.expert_tp > 0 ? real(w_.expert_tp) : t;
    width = real(m.expert_ffn) / expert_tp;
    // Tokens of a local expert, from all ranks of the expert-parallel group; the busiest one sets the pace.
    const double local = real(m.experts / w_.ep);
    expert_tokens = n * real(m.top_k) * real(w_.ep) / real(m.experts) * w_.busiest_load() * (expert_tp / t);
    add(expert_tokens, h, width * (m.gated ? 2 : 1), local);
    add(expert_tokens, width, h, local);
    expert_tokens *= local;
    if (m.shared_ffn > 0) {
      const double before = forward;
      add(n, h, real(m.shared_ffn) / t * (m.gated ? 2 : 1), 1);
      add(n, real(m.shared_ffn) / t, h, 1);
      shared = forward - before;
    }
    forward += product(n, real(m.experts), h, plain_);
  } else if (m.mlp_share() > 0) {
    add(n, h, width * (m.gated ? 2 : 1), m.mlp_share());
    add(n, width, h, m.mlp_share());
  }
  out.forward.linear = forward;
  out.backward_input.linear = data;
  out.backward_weight.linear = weight;
  out.backward_weight.elementwise = bytes(k_[Constant::kAccumulate] * weights);

  // Core attention. Fused kernels skip what a causal mask hides and recompute scores in the backward pass:
  // 2.5 times the forward FLOPs, at 63 instead of 73 % of the peak (2307.08691 sections 1 and 3.1.2).
  const double sequence = real(of.sequence);
  const double seen = m.window ? std::min(real(*m.window), sequence) : sequence;
  const double causal = of.causal && !(m.window && *m.window < of.sequence) ? 0.5 : 1.0;
  double core = 0, core_backward = 0;
  // `keys` of a sequence, of which fused kernels read `read` for a query.
  const auto attend = [&](double keys, double read) {
    if (s.attention == AttentionKernel::kUnfused) {
      const double copies = real(w_.micro_batch) * real(w_.rank_heads());
      const double rows = sequence / real(w_.cp);
      // Head sizes that are not multiples of 8 cannot use the tensor cores.
      const double unaligned = m.head_size % 8 == 0 ? 1 : 8;
      const double products =
          copies * (product(rows, keys, d, plain_) + product(rows, d, keys, plain_)) * unaligned;
      const double scores = copies * rows * keys / memory_ * k_[Constant::kScore] * (s.fused ? 1 : 1.6);
      core += products + scores;
      core_backward += 2 * products + scores * 17.0 / 13.0;
    } else {
      const double share = s.attention == AttentionKernel::kTriton ? k_[Constant::kAttentionTriton] * older_
                                                                   : k_[Constant::kAttention];
      const double flops = 4 * n * read * q;
      // Behind a causal mask, the rank with the last tokens has most to do.
      const bool uneven = w_.cp > 1 && !s.balanced_context && read < keys;
      const double idle = uneven ? 2 - 1 / real(w_.cp) : 1;
      const double time = flops / (peak16_ / k_[Constant::kGemm] * share) * idle;
      core += time;
      core_backward += 2.5 * 0.73 / 0.63 * time;
    }
  };
  attend(sequence, seen * causal);
  if (of.sources > 0) attend(real(of.source_length), real(of.source_length));
  if (const double linear = m.linear_share(); linear > 0) {
    // Three products of every token with the states of its heads; ten in the backward pass.
    const double state = 2 * n * real(m.linear_values * m.linear_key_size) / t / peak16_;
    core = (1 - linear) * core + linear * 3 * state;
    core_backward = (1 - linear) * core_backward + linear * 10 * state;
  }
  if (m.single_branches()) {
    // The scan of a state-space layer, like attention by fused kernels; its backward pass computes it again.
    const double scan =
        2 * n * state_products(m) / t / (peak16_ / k_[Constant::kGemm] * k_[Constant::kAttention]);
    core = m.softmax_share() * core + m.state_share() * scan;
    core_backward = m.softmax_share() * core_backward + m.state_share() * 3 * scan;
  }
  out.forward.attention = core;
  out.backward_input.attention = core_backward;

  // Element-wise chains: nominal bytes of norms, residuals and dropout outside the tensor-parallel region, of
  // activation functions and transposes inside it.
  const double branches = m.branches() * (of.sources > 0 ? 1.5 : 1);
  const double outside = branches * 22 * h * n / (w_.sequence_parallel ? t : 1);
  const double rows_in = experts ? expert_tokens : n;
  // Of state-space layers: convolution, gate and norm.
  const double inside = m.single_branches()
                            ? n * (m.mlp_share() * (m.gated ? 6 : 4) * width + m.softmax_share() * 12 * q +
                                   m.state_share() * real(4 * m.state_columns() + 6 * m.state_inner()) / t)
                            : (m.gated ? 6 : 4) * width * rows_in + 12 * q * n +
                                  (of.sources > 0 ? 6 * q * (n + of.sources) : 0);
  // Copies of tokens are sorted by expert, before and after the exchange.
  const double permuted =
      experts ? 8 * h * n * real(m.top_k) / (w_.sequence_parallel ? t : 1) + 4 * h * expert_tokens : 0;
  const double chain = s.compiled ? 0.7 : s.fused ? 1 : 1.8;
  // A cast reads 16 bits and writes 8; "tensorwise" first reads them once more for the largest magnitude.
  const bool fp8 = w_.format == Format::kFp8, maxima = w_.fp8_recipe == model::Fp8Recipe::kTensorwise;
  const double casts = fp8 ? (maxima ? 5 : 3) * cast : 0;
  out.forward.elementwise = bytes((outside + inside) * chain + permuted + casts);
  out.backward_input.elementwise = bytes(1.6 * ((outside + inside) * chain + permuted) + casts);

  // Host: launching the kernels of a small layer takes longer than the layer. Those of a large one are
  // queued, but the device is still idle between two kernels, for 1.5 us if the host takes some 15 us to
  // launch one. In FP8 casts add half as many kernels, and maxima as many again.
  constexpr double kGap = 0.1;
  const double host = k_[Constant::kHostLayer] * 1e-3 * (s.compiled ? 0.4 : 1) * (experts ? 2 : 1) * branches;
  const double kernels = fp8 ? (maxima ? 2 : 1.5) : 1;
  const auto floor = [&](KindTime& kind, double passes) {
    const double device = kind.linear + kind.attention + kind.elementwise, launches = host * kernels * passes;
    kind.host = overlapped(device, launches) - device + kGap * launches;
  };
  floor(out.forward, 1);
  // The host reads the token counts back before tokens are sent.
  const double routing = experts ? 0.5 * host : 0;
  out.forward.host += routing;

  // Tensor parallelism: two all-reduces per direction, or gathers and scatters of equal volume (2205.05198).
  const CommGroup tensor{w_.tp, 1};
  const double activation = 2 * n * h;
  const double exposed = s.overlap_tensor ? k_[Constant::kTensorExposed] : 1;
  const auto reduce = [&](double size, double gathered) {
    return w_.sequence_parallel ? comm_.all_gather(size, tensor) + comm_.all_gather(gathered * size, tensor)
                                : comm_.all_reduce(size, tensor);
  };
  const double gathered = fp8 && s.gathers_fp8 ? 0.5 : 1;
  double attention_comm = (branches + (of.sources > 0 ? 0.5 : 0)) * reduce(activation, gathered);
  double ffn_comm = m.branches() * reduce(activation, gathered);
  if (experts) {
    // Dispatched copies are gathered and scattered over the tensor-parallel group, and exchanged between the
    // ranks that hold experts.
    ffn_comm = reduce(activation * real(m.top_k) * (w_.ep > 1 ? 1 : 0.5), 1);
    exchange(out);
  }
  const double dense_comm = experts ? attention_comm : attention_comm + ffn_comm;
  const double token_comm = experts ? ffn_comm : 0;
  out.forward.tensor = visible(dense_comm, out.forward.linear, exposed) + token_comm;
  out.backward_input.tensor = visible(dense_comm, out.backward_input.linear, exposed) + token_comm;

  // Context parallelism: keys and values travel around the ring during attention, and their gradients back in
  // the same way.
  if (w_.cp > 1) {
    const CommGroup context{w_.cp, w_.tp};
    const double pass = m.attention_share() * comm_.all_gather(2 * 2 * n * real(w_.cp) * kv_all, context);
    out.forward.context = visible(pass, core, 0.1);
    out.backward_input.context = visible(2 * pass, core_backward, 0.1);
  }

  // What the backward pass recomputes.
  switch (w_.recompute) {
    case Recompute::kNone:
      break;
    case Recompute::kSelective:
      out.again.attention = core;
      if (!w_.modules.named || w_.modules.up_projections) out.again.linear = from_latents;
      if (w_.modules.named) out.again.linear += repeated_products(experts, forward - before_ffn, shared);
      break;
    case Recompute::kOperators:
      out.again.linear = 0.5 * out.forward.linear;
      out.again.elementwise = 0.7 * out.forward.elementwise;
      break;
    case Recompute::kFull:
      out.again = out.forward;
      out.again.host = 0;
      break;
  }
  out.again = out.again * w_.recomputed_share;
  KindTime backward = out.backward_input + out.backward_weight + out.again;
  floor(backward, 1.6 + (w_.recompute == Recompute::kFull ? w_.recomputed_share : 0));
  out.backward_input.host = backward.host + routing;
  return out;
}

// Seconds of the forward products that selective recomputation computes again by name, of those of the MLP or
// the experts and those of the shared experts among them.
double LayerModel::repeated_products(bool experts, double ffn, double shared) const {
  if (experts ? w_.modules.experts : w_.modules.mlp) return ffn;
  return experts && w_.modules.shared_experts ? shared : 0;
}

// A layer, the projection of two streams to one before it, and the head.
LayerTime LayerModel::further_token() const {
  const double n = rows_.tokens, h = real(w_.model.hidden), width = h / real(w_.tp);
  LayerTime out = (w_.model.expert_layers > 0 ? experts() : dense()) + head();
  out.forward.linear += product(n, width, 2 * h, w_.format);
  out.backward_input.linear += product(n, 2 * h, width, w_.format);
  out.backward_weight.linear += product(2 * h, width, n, w_.format);
  return out;
}

// Rows to the experts and their results back, and the gradients of both.
void LayerModel::exchange(LayerTime& out) const {
  const ModelShape& m = w_.model;
  const Software& s = w_.software;
  const CommGroup group{w_.ep, w_.tp * w_.cp};
  const double rows = rows_.tokens * real(m.hidden) / (w_.sequence_parallel ? real(w_.tp) : 1),
               k = real(m.top_k);
  const bool fp8 = w_.format == Format::kFp8 && s.dispatch_fp8;
  // Nodes with some of a token's experts: of the groups that it chooses from, or of all.
  const double nodes = w_.ep > 1 ? real(comm_.nodes(group)) : 1;
  double reached = nodes * (1 - std::pow(1 - 1 / nodes, k));
  if (m.chosen_groups > 0)
    reached = std::min(reached, std::max(1.0, nodes * real(m.chosen_groups) / real(m.expert_groups)));
  const auto one_way = [&](double bytes) {
    return s.forwards_in_node ? comm_.all_to_all(bytes * rows * k, bytes * rows * reached, group)
                              : comm_.all_to_all(bytes * rows * k, group);
  };
  const double exposed = s.overlap_experts ? k_[Constant::kDataExposed] : 1;
  const double there = one_way(fp8 ? 1 : 2), back = one_way(2);
  out.forward.expert = visible(there + back, out.forward.linear + out.forward.attention, exposed);
  out.backward_input.expert =
      visible(there + back, out.backward_input.linear + out.backward_input.attention, exposed);
}

LayerTime LayerModel::embedding() const {
  LayerTime out;
  const double n = rows_.tokens + targets_.tokens, h = real(w_.model.hidden);
  out.forward.elementwise = bytes(8 * n * h);
  out.backward_weight.elementwise = bytes(12 * n * h);
  const CommGroup tensor{w_.tp, 1};
  out.forward.tensor =
      w_.sequence_parallel ? comm_.all_gather(2 * n * h, tensor) : comm_.all_reduce(2 * n * h, tensor);
  return out;
}

LayerTime LayerModel::head() const {
  LayerTime out;
  const double n = w_.model.encoder_layers > 0 ? targets_.tokens : rows_.tokens, h = real(w_.model.hidden),
               v = real(w_.model.vocabulary) / real(w_.tp);
  out.forward.linear = product(n, v, h, plain_);
  out.backward_input.linear = product(n, h, v, plain_);
  out.backward_weight.linear = product(h, v, n, plain_);
  const double logits = k_[Constant::kLogit] * n * v * (w_.software.compiled ? 0.7 : 1);
  out.forward.elementwise = bytes(0.5 * logits + 10 * n * h);
  out.backward_input.elementwise = bytes(0.5 * logits + 16 * n * h);
  const CommGroup tensor{w_.tp, 1};
  out.forward.tensor = w_.sequence_parallel ? comm_.all_gather(2 * n * h, tensor) : 0;
  out.backward_input.tensor =
      w_.sequence_parallel ? comm_.all_gather(2 * n * h, tensor) : comm_.all_reduce(2 * n * h, tensor);
  return out;
}

}  // namespace stoa::plan
