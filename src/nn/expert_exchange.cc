#include "nn/expert_exchange.h"

#include <algorithm>
#include <numeric>

#include "ops/elementwise.h"

namespace stoa::nn {

ExpertExchange::ExpertExchange(std::string name, std::int64_t experts, std::int64_t chosen,
                               const parallel::ExpertPlace& place)
    : name_(std::move(name)),
      experts_(experts),
      chosen_(chosen),
      place_(place),
      members_{place.members(), place.tensor_size, place.member()} {}

void ExpertExchange::declare(ActivationTable& table, std::int64_t tokens, std::int64_t most_tokens, DType sum,
                             int choice, int weights, std::optional<std::int64_t> limit) {
  choice_ = choice;
  weights_ = weights;
  const std::int64_t each = members_.experts_each(experts_), columns = chosen_ * members_.copies;
  copied_ = tokens * columns;
  rows_ = place_.split() ? members_.members * most_tokens * std::min(chosen_, each) : copied_;
  limited_ = limit.has_value();
  if (place_.split() && limit) rows_ = std::min(rows_, each * *limit);
  const auto activation = [&](const char* name, DType type, Shape shape,
                              void (ExpertExchange::*make)(Pass&, Saved&) const, bool weight_input) {
    return table.declare({.tensor = {name_ + "." + name, type, shape},
                          .producer = Producer::kSmall,
                          .make = [this, make](Pass& pass, Saved& saved) { (this->*make)(pass, saved); },
                          .weight_input = weight_input});
  };
  order_ = activation("order", DType::kI32, {tokens, columns}, &ExpertExchange::make_groups, true);
  target_ = activation("place", DType::kI32, {tokens, columns}, &ExpertExchange::make_groups, false);
  if (!counted()) {
    sorted_ =
        activation("sorted experts", DType::kI32, {tokens, columns}, &ExpertExchange::make_groups, true);
    return;
  }
  const Shape counts{members_.members, each}, arrivals{rows_, 1};
  leaving_ = activation("leaving rows", DType::kI32, counts, &ExpertExchange::make_groups, true);
  coming_ = place_.split()
                ? activation("coming rows", DType::kI32, counts, &ExpertExchange::make_arrivals, true)
                : leaving_;
  arrival_order_ = activation("arrival order", DType::kI32, arrivals, &ExpertExchange::make_arrivals, true);
  arrival_place_ = activation("arrival place", DType::kI32, arrivals, &ExpertExchange::make_arrivals, false);
  sorted_ = activation("sorted experts", DType::kI32, arrivals, &ExpertExchange::make_arrivals, true);
  arrived_weights_ =
      activation("arrived weights", sum, {rows_ + copied_, 1}, &ExpertExchange::make_weights, false);
}

void ExpertExchange::make_groups(Pass& pass, Saved& saved) const {
  const TensorView choice = saved.get(pass, choice_), order = saved.put(pass, order_),
                   place = saved.put(pass, target_);
  const bool counts = counted();
  const TensorView leaving = counts ? saved.put(pass, leaving_) : TensorView();
  traffic_.reset();
  ops::run(pass.ops, ops::GroupByExpert{.expert_count = experts_,
                                        .experts = choice,
                                        .order = order,
                                        .place = place,
                                        .sorted_experts = counts ? TensorView() : saved.put(pass, sorted_),
                                        .members = members_,
                                        .counts = leaving});
}

void ExpertExchange::make_arrivals(Pass& pass, Saved& saved) const {
  const TensorView leaving = saved.get(pass, leaving_),
                   coming = place_.split() ? saved.put(pass, coming_) : leaving,
                   order = saved.put(pass, arrival_order_), place = saved.put(pass, arrival_place_),
                   sorted = saved.put(pass, sorted_);
  traffic_.reset();
  if (place_.split())
    pass.parallel.along(parallel::Group::kExpert).all_to_all(leaving, coming, pass.ops.stream)->wait();
  ops::run(
      pass.ops,
      ops::GroupArrivals{
          .self = members_.self, .counts = coming, .order = order, .place = place, .sorted_experts = sorted});
}

void ExpertExchange::make_weights(Pass& pass, Saved& saved) const {
  prepare(pass, saved);
  const TensorView weights = saved.get(pass, weights_), arrived = saved.put(pass, arrived_weights_);
  scatter(pass, saved, weights.reshape({weights.elements(), 1}), arrived);
}

void ExpertExchange::prepare(Pass& pass, Saved& saved) const {
  for (const int activation : {order_, target_, sorted_}) saved.get(pass, activation);
  if (!counted()) return;
  for (const int activation : {leaving_, coming_, arrival_order_, arrival_place_})
    saved.get(pass, activation);
}

const ExpertExchange::Traffic& ExpertExchange::traffic(Pass& pass, Saved& saved) const {
  const TensorView leaving = saved.get(pass, leaving_), coming = saved.get(pass, coming_);
  if (!traffic_)
    traffic_ = find_traffic(pass, leaving, coming, saved.get(pass, sorted_).rows(),
                            saved.get(pass, order_).elements());
  return *traffic_;
}

// Without memory the load is taken as even.
ExpertExchange::Traffic ExpertExchange::find_traffic(Pass& pass, TensorView leaving, TensorView coming,
                                                     std::int64_t most, std::int64_t copied) const {
  const auto members = static_cast<std::size_t>(members_.members);
  const auto self = static_cast<std::size_t>(members_.self);
  const auto sums = [&](const std::int32_t* n) {
    const std::int64_t each = leaving.shape[1];
    std::vector<std::int64_t> rows;
    for (std::size_t m = 0; m < members; ++m, n += each)
      rows.push_back(std::accumulate(n, n + each, std::int64_t{0}));
    return rows;
  };
  Traffic t;
  if (leaving.device == DeviceKind::kHost) {
    t.sends = sums(leaving.as<std::int32_t>());
    t.comes = sums(coming.as<std::int32_t>());
  } else if (leaving.device == DeviceKind::kMeta) {
    t.sends.assign(members, std::min(copied, most) / members_.members);
    t.comes = t.sends;
  } else if (host_knows_count(leaving)) {
    std::vector<std::int32_t> counts(static_cast<std::size_t>(2 * leaving.elements()));
    std::int32_t* const second = counts.data() + leaving.elements();
    pass.ops.device->copy_to_host(counts.data(), leaving.data, leaving.bytes(), pass.ops.stream);
    pass.ops.device->copy_to_host(second, coming.data, coming.bytes(), pass.ops.stream);
    pass.ops.stream.synchronize();
    t.sends = sums(counts.data());
    t.comes = sums(second);
  } else {
    t.sends = t.comes = {copied_};
  }
  t.own = t.sends[self];
  t.sends[self] = t.comes[self] = 0;
  t.sent = std::accumulate(t.sends.begin(), t.sends.end(), std::int64_t{0});
  t.arrived = std::accumulate(t.comes.begin(), t.comes.end(), std::int64_t{0});
  return t;
}

TensorView ExpertExchange::came(Pass& pass, Saved& saved, TensorView rows) const {
  return counted() ? rows.slice(0, traffic(pass, saved).came()) : rows;
}

TensorView ExpertExchange::buffer(Pass& pass, DType type, std::int64_t columns) const {
  return pass.ops.scratch.allocate(type, {rows_ + copied_, columns});
}

// x [N, D]: every row goes to as many members as order has columns for it.
void ExpertExchange::scatter(Pass& pass, Saved& saved, TensorView x, TensorView buffer) const {
  const Traffic t = traffic(pass, saved);
  const TensorView order = saved.get(pass, order_);
  const std::int64_t copied = order.elements();
  ops::run(pass.ops, ops::GatherRows{.x = x,
                                     .order = order.reshape({x.rows(), order.elements() / x.rows()}),
                                     .y = buffer.slice(t.arrived, copied)});
  pass.parallel.along(parallel::Group::kExpert)
      .all_to_all_v(buffer.slice(t.arrived + t.own, t.sent), t.sends, buffer.slice(0, t.arrived), t.comes,
                    pass.ops.stream)
      ->wait();
}

void ExpertExchange::gather(Pass& pass, Saved& saved, TensorView buffer, TensorView y) const {
  const Traffic t = traffic(pass, saved);
  const TensorView place = saved.get(pass, target_);
  const std::int64_t copied = place.elements();
  pass.parallel.along(parallel::Group::kExpert)
      .all_to_all_v(buffer.slice(0, t.arrived), t.comes, buffer.slice(t.arrived + t.own, t.sent), t.sends,
                    pass.ops.stream)
      ->wait();
  // Unused rows contribute zeros.
  if (limited_) ops::run(pass.ops, ops::FillZero{buffer.slice(t.came() + t.sent, copied - t.own - t.sent)});
  ops::run(pass.ops, ops::SumRows{.x = buffer.slice(t.arrived, copied),
                                  .place = place.reshape({y.rows(), place.elements() / y.rows()}),
                                  .y = y});
}

void ExpertExchange::send(Pass& pass, Saved& saved, TensorView x, TensorView rows) const {
  if (!counted()) {
    ops::run(pass.ops, ops::GatherRows{.x = x, .order = saved.get(pass, order_), .y = rows});
    return;
  }
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView all = buffer(pass, x.dtype, x.shape[1]);
  scatter(pass, saved, x, all);
  ops::run(pass.ops, ops::GatherRows{.x = came(pass, saved, all),
                                     .order = came(pass, saved, saved.get(pass, arrival_order_)),
                                     .y = came(pass, saved, rows)});
}

void ExpertExchange::bring_back(Pass& pass, Saved& saved, TensorView rows, TensorView y) const {
  if (!counted()) {
    ops::run(pass.ops, ops::SumRows{.x = rows, .place = saved.get(pass, target_), .y = y});
    return;
  }
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView all = buffer(pass, y.dtype, y.shape[1]);
  ops::run(pass.ops, ops::SumRows{.x = came(pass, saved, rows),
                                  .place = came(pass, saved, saved.get(pass, arrival_place_)),
                                  .y = came(pass, saved, all)});
  gather(pass, saved, all, y);
}

ExpertExchange::Weights ExpertExchange::weights(Pass& pass, Saved& saved) const {
  if (!counted()) return {saved.get(pass, order_), saved.get(pass, weights_)};
  return {came(pass, saved, saved.get(pass, arrival_order_)),
          came(pass, saved, saved.get(pass, arrived_weights_))};
}

void ExpertExchange::weight_gradient(Pass& pass, Saved& saved, TensorView dweights,
                                     const std::function<void(TensorView)>& compute) const {
  if (!counted()) return compute(dweights);
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView all = buffer(pass, dweights.dtype, 1);
  compute(came(pass, saved, all));
  gather(pass, saved, all, dweights.reshape({dweights.elements(), 1}));
}

}  // namespace stoa::nn
