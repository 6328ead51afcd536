#include "ops/moe.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "ops/reference/reference_backend.h"
#include "ops/reference/router.h"
#include "ops/reference/values.h"
#include "ops/step_state.h"

namespace stoa::ops {

void ReferenceBackend::execute(const RouterForward& op, Resources) {
  const std::int64_t tokens = op.logits.shape[0], experts = op.logits.shape[1], k = op.experts.shape[1];
  const Values logits = load(op.logits), bias = load(op.bias);
  Values weights(static_cast<std::size_t>(tokens * k));
  auto* ids = op.experts.as<std::int32_t>();
  Values scores(static_cast<std::size_t>(experts));
  for (std::int64_t t = 0; t < tokens; ++t) {
    router_scores(op.options.score, logits.data() + t * experts, experts, scores.data());
    choose_experts(op.options, scores.data(), bias.empty() ? nullptr : bias.data(), experts, k, ids + t * k);
    router_weights(op.options, scores.data(), ids + t * k, k, weights.data() + t * k);
  }
  store(weights, op.weights);
}

void ReferenceBackend::execute(const CountAssignments& op, Resources) {
  const std::int64_t tokens = op.experts.shape[0], k = op.experts.shape[1], experts = op.counts.shape[1];
  const auto* ids = op.experts.as<std::int32_t>();
  Values counts(static_cast<std::size_t>(op.counts.elements()), op.offset);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t j = 0; j < k; ++j)
      counts[static_cast<std::size_t>(op.sequences.of(t) * experts + ids[t * k + j])] += op.scale;
  store(counts, op.counts);
}

void ReferenceBackend::execute(const PlaceChoices& op, Resources) {
  const std::int64_t tokens = op.experts.shape[0], k = op.experts.shape[1];
  const Values weights = load(op.weights);
  const auto* ids = op.experts.as<std::int32_t>();
  Values choices = load(op.choices);
  for (std::int64_t t = 0; t < tokens; ++t) {
    double* row = choices.data() + op.places.of(t) * 2 * k;
    std::copy_n(ids + t * k, k, row);
    std::copy_n(weights.data() + t * k, k, row + k);
  }
  store(choices, op.choices);
}

void ReferenceBackend::execute(const LimitExperts& op, Resources) {
  const std::int64_t tokens = op.kept.shape[0], k = op.kept.shape[1], length = op.places.length;
  const Values choices = load(op.choices);
  const auto id = [&](std::int64_t token, std::int64_t j) { return choices[token * 2 * k + j]; };
  const auto weight = [&](std::int64_t a) { return choices[a / k * 2 * k + k + a % k]; };
  std::vector<bool> dropped(static_cast<std::size_t>(op.choices.shape[0] * k));  // by assignment
  for (std::int64_t s = 0; s < op.places.sequences.count; ++s) {
    std::map<double, std::vector<std::int64_t>> by_expert;  // assignments, by token
    for (std::int64_t a = s * length * k; a < (s + 1) * length * k; ++a)
      by_expert[id(a / k, a % k)].push_back(a);
    for (auto& [expert, assignments] : by_expert) {
      if (op.policy == DropPolicy::kWeight)
        std::stable_sort(assignments.begin(), assignments.end(),
                         [&](std::int64_t a, std::int64_t b) { return weight(a) > weight(b); });
      for (std::size_t i = static_cast<std::size_t>(op.capacity); i < assignments.size(); ++i)
        dropped[static_cast<std::size_t>(assignments[i])] = true;
    }
  }
  auto* kept = op.kept.as<std::int32_t>();
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int64_t token = op.places.of(t);
      kept[t * k + j] =
          dropped[static_cast<std::size_t>(token * k + j)] ? -1 : static_cast<std::int32_t>(id(token, j));
    }
}

void ReferenceBackend::execute(const RouterBackward& op, Resources) {
  const std::int64_t tokens = op.logits.shape[0], experts = op.logits.shape[1], k = op.experts.shape[1];
  const Values logits = load(op.logits), dweights = load(op.dweights), counts = load(op.counts);
  const auto* ids = op.experts.as<std::int32_t>();
  const double seed = op.state ? op.state.as<double>()[static_cast<int>(StepSlot::kLossSeed)] : 0;
  Values dlogits(logits.size()), scores(static_cast<std::size_t>(experts)), dscores(scores.size());
  for (std::int64_t t = 0; t < tokens; ++t) {
    const double* x = logits.data() + t * experts;
    double* dx = dlogits.data() + t * experts;
    router_scores(op.options.score, x, experts, scores.data());
    router_weights_backward(op.options, scores.data(), ids + t * k, dweights.data() + t * k, experts, k,
                            dscores.data());
    if (op.balance != 0) {
      const double factor =
          seed * op.balance * static_cast<double>(experts) / static_cast<double>(k * op.length);
      balance_backward(op.options.score, scores.data(), counts.data() + op.sequences.of(t) * experts, factor,
                       experts, dscores.data());
    }
    router_scores_backward(op.options.score, scores.data(), dscores.data(), experts, dx);
    if (op.z != 0) {
      const double most = *std::max_element(x, x + experts);
      double sum = 0;
      for (std::int64_t e = 0; e < experts; ++e) sum += std::exp(x[e] - most);
      const double lse = most + std::log(sum);
      for (std::int64_t e = 0; e < experts; ++e) dx[e] += 2 * seed * op.z * lse * std::exp(x[e] - lse);
    }
  }
  store(dlogits, op.dlogits);
}

void ReferenceBackend::execute(const GroupByExpert& op, Resources) {
  const std::int64_t assignments = op.experts.elements(), experts = op.expert_count;
  const std::int64_t members = op.members.members, copies = op.members.copies, self = op.members.self;
  const std::int64_t each = op.members.experts_each(experts);
  const auto* ids = op.experts.as<std::int32_t>();
  auto *order = op.order.as<std::int32_t>(), *place = op.place.as<std::int32_t>();
  // Begin of the rows of every expert of every member.
  std::vector<std::int64_t> rows(static_cast<std::size_t>(members * each));
  for (std::int64_t a = 0; a < assignments; ++a) {
    require<DataError>(ids[a] >= -1 && ids[a] < experts, "assignment {} is to expert {} of {}", a, ids[a],
                       experts);
    if (ids[a] < 0) continue;
    for (std::int64_t c = 0; c < copies; ++c)
      ++rows[static_cast<std::size_t>((op.members.first_of(ids[a], experts) + c) * each + ids[a] % each)];
  }
  if (op.counts) std::copy(rows.begin(), rows.end(), op.counts.as<std::int32_t>());
  std::int64_t next = 0;
  const auto begin_member = [&](std::int64_t member) {
    for (std::int64_t e = 0; e < each; ++e) next += std::exchange(rows[member * each + e], next);
  };
  begin_member(self);
  for (std::int64_t m = 0; m < members; ++m)
    if (m != self) begin_member(m);
  for (std::int64_t a = 0; a < assignments; ++a)
    for (std::int64_t c = 0; c < copies; ++c) {
      std::int64_t& of_expert = ids[a] < 0
                                    ? next
                                    : rows[static_cast<std::size_t>(
                                          (op.members.first_of(ids[a], experts) + c) * each + ids[a] % each)];
      const std::int64_t row = of_expert++;
      order[row] = static_cast<std::int32_t>(a * copies + c);
      place[a * copies + c] = static_cast<std::int32_t>(row);
      if (op.sorted_experts) op.sorted_experts.as<std::int32_t>()[row] = ids[a];
    }
}

void ReferenceBackend::execute(const GroupArrivals& op, Resources) {
  const std::int64_t members = op.counts.shape[0], each = op.counts.shape[1], most = op.order.shape[0];
  const auto* counts = op.counts.as<std::int32_t>();
  auto *order = op.order.as<std::int32_t>(), *place = op.place.as<std::int32_t>(),
       *sorted = op.sorted_experts.as<std::int32_t>();
  std::vector<std::int64_t> arrivals(static_cast<std::size_t>(members * each));  // first of each
  std::int64_t next = 0;
  const auto begin_member = [&](std::int64_t member) {
    for (std::int64_t e = 0; e < each; ++e) {
      arrivals[static_cast<std::size_t>(member * each + e)] = next;
      next += counts[member * each + e];
    }
  };
  for (std::int64_t m = 0; m < members; ++m)
    if (m != op.self) begin_member(m);
  begin_member(op.self);
  require<InternalError>(next <= most, "{} rows arrive where {} were expected at most", next, most);
  std::int64_t row = 0;
  for (std::int64_t e = 0; e < each; ++e)
    for (std::int64_t m = 0; m < members; ++m) {
      const std::int64_t first = arrivals[static_cast<std::size_t>(m * each + e)];
      for (std::int64_t i = first; i < first + counts[m * each + e]; ++i, ++row) {
        order[row] = static_cast<std::int32_t>(i);
        place[i] = static_cast<std::int32_t>(row);
        sorted[row] = static_cast<std::int32_t>(e);
      }
    }
  for (; row < most; ++row) {
    order[row] = place[row] = static_cast<std::int32_t>(row);
    sorted[row] = -1;
  }
}

void ReferenceBackend::execute(const GatherRows& op, Resources) {
  const std::int64_t rows = op.order.elements(), k = op.divisor(), d = op.x.shape[1];
  const Values x = load(op.x);
  const auto* order = op.order.as<std::int32_t>();
  Values y(static_cast<std::size_t>(rows * d));
  for (std::int64_t i = 0; i < rows; ++i) std::copy_n(x.data() + order[i] / k * d, d, y.data() + i * d);
  store(y, op.y);
}

void ReferenceBackend::execute(const SumRows& op, Resources) {
  const std::int64_t tokens = op.place.shape[0], k = op.place.shape[1], d = op.x.shape[1];
  const Values x = load(op.x);
  const auto* place = op.place.as<std::int32_t>();
  Values y(static_cast<std::size_t>(tokens * d));
  for (std::int64_t a = 0; a < tokens * k; ++a)
    for (std::int64_t i = 0; i < d; ++i) y[a / k * d + i] += x[place[a] * d + i];
  store(y, op.y);
}

void ReferenceBackend::execute(const ScaleRows& op, Resources) {
  const std::int64_t rows = op.x.shape[0], f = op.x.shape[1];
  const Values weights = load(op.weights);
  const auto* order = op.order.as<std::int32_t>();
  Values x = load(op.x);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t c = 0; c < f; ++c) x[i * f + c] *= weights[static_cast<std::size_t>(order[i])];
  store(x, op.y);
}

void ReferenceBackend::execute(const ScaleRowsBackward& op, Resources) {
  const std::int64_t rows = op.x.shape[0], f = op.x.shape[1];
  const Values weights = load(op.weights), x = load(op.x);
  const auto* order = op.order.as<std::int32_t>();
  Values dy = load(op.dy), dweights(weights.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto a = static_cast<std::size_t>(order[i]);
    for (std::int64_t c = 0; c < f; ++c) {
      dweights[a] += dy[i * f + c] * x[i * f + c];
      dy[i * f + c] *= weights[a];
    }
  }
  store(dy, op.dx);
  store(dweights, op.dweights);
}

namespace {

// An expert's part of an operand of a grouped product: what codes stand for, in fp64.
class ExpertOperand {
 public:
  ExpertOperand(const TensorView& part, const TensorView& inverse_scales, std::int64_t expert) : view_(part) {
    if (!is_fp8(part.dtype)) return;
    values_ = load(part);
    const double inverse = load(inverse_scales)[static_cast<std::size_t>(expert)];
    for (double& value : values_) value *= inverse;
    view_ = TensorView(values_.data(), DType::kF64, part.shape);
  }
  ExpertOperand(const ExpertOperand&) = delete;
  operator TensorView() const { return view_; }  // NOLINT: stands for it

 private:
  Values values_;
  TensorView view_;
};

void continue_sum(const GroupedLinearBackwardWeight& op) {
  const std::int64_t k_count = op.x.shape[1], n_count = op.dy.shape[1];
  const Values x = load(op.x), dy = load(op.dy);
  Values dw = op.accumulate ? load(op.dw) : Values(static_cast<std::size_t>(op.dw.elements()));
  for (std::int64_t t = 0; t < op.x.shape[0]; ++t)
    for (std::int64_t n = 0; n < n_count; ++n)
      for (std::int64_t k = 0; k < k_count; ++k)
        dw[n * k_count + k] += dy[t * n_count + n] * x[t * k_count + k];
  store(dw, op.dw);
}

}  // namespace

void ReferenceBackend::execute(const GroupedLinearForward& op, Resources resources) {
  const std::int64_t n = op.y.shape[1];
  for_each_expert(op.sorted_experts, [&](std::int64_t e, std::int64_t begin, std::int64_t end) {
    const ExpertOperand x(op.x.slice(begin, end - begin), op.inverse_x, e),
        w(op.w.slice(e * n, n), op.inverse_w, e);
    execute(LinearForward{x, w, {}, op.y.slice(begin, end - begin)}, resources);
  });
}

void ReferenceBackend::execute(const GroupedLinearBackwardInput& op, Resources resources) {
  const std::int64_t n = op.dy.shape[1];
  for_each_expert(op.sorted_experts, [&](std::int64_t e, std::int64_t begin, std::int64_t end) {
    const ExpertOperand dy(op.dy.slice(begin, end - begin), op.inverse_dy, e),
        w(op.w.slice(e * n, n), op.inverse_w, e);
    execute(LinearBackwardInput{dy, w, op.dx.slice(begin, end - begin)}, resources);
  });
}

void ReferenceBackend::execute(const GroupedLinearBackwardWeight& op, Resources resources) {
  const std::int64_t n = op.dy.shape[1];
  if (op.part_of >= 0) return continue_sum(op);
  if (!op.accumulate) execute(FillZero{op.dw}, resources);
  for_each_expert(op.sorted_experts, [&](std::int64_t e, std::int64_t begin, std::int64_t end) {
    const ExpertOperand x(op.x.slice(begin, end - begin), op.inverse_x, e),
        dy(op.dy.slice(begin, end - begin), op.inverse_dy, e);
    execute(LinearBackwardWeight{x, dy, op.dw.slice(e * n, n), {}, true}, resources);
  });
}

}  // namespace stoa::ops
