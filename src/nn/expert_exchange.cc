#include "nn/expert_exchange.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"

namespace stoa::nn {

ExpertExchange::ExpertExchange(std::string name, std::int64_t experts, std::int64_t chosen,
                               const parallel::ExpertPlace& place)
    : name_(std::move(name)),
      experts_(experts),
      chosen_(chosen),
      place_(place),
      members_(place.replicated ? ops::ExpertMembers{place.size, 1, place.rank}
                                : ops::ExpertMembers{place.members(), place.tensor_size, place.member()}) {}

void ExpertExchange::declare(ActivationTable& table, const Declared& d) {
  choice_ = d.choice;
  weights_ = d.weights;
  sum_ = d.sum;
  const std::int64_t each = members_.experts_each(experts_), columns = chosen_ * members_.copies;
  copied_ = d.tokens * columns;
  rows_ = exchanges()         ? members_.members * d.most_tokens * std::min(chosen_, each)
          : place_.replicated ? d.tokens * std::min(chosen_, each)
                              : copied_;
  limited_ = d.limit.has_value();
  if (exchanges() && d.limit) rows_ = std::min(rows_, each * *d.limit);
  if (exchanges() && d.factor) {
    const double even = static_cast<double>(d.most_tokens * columns);
    const auto declared = std::max(PartRows::kFewest, static_cast<std::int64_t>(std::ceil(*d.factor * even)));
    spills_ = declared < rows_;
    rows_ = std::min(rows_, declared);
  }
  const auto activation = [&](const char* name, DType type, Shape shape,
                              void (ExpertExchange::*make)(Pass&, Saved&) const, bool weight_input,
                              std::int64_t least_rows = 0) {
    return table.declare({.tensor = {name_ + "." + name, type, shape},
                          .producer = Producer::kSmall,
                          .make = [this, make](Pass& pass, Saved& saved) { (this->*make)(pass, saved); },
                          .weight_input = weight_input,
                          .least_rows = least_rows});
  };
  order_ = activation("order", DType::kI32, {d.tokens, columns}, &ExpertExchange::make_groups, true);
  target_ = activation("place", DType::kI32, {d.tokens, columns}, &ExpertExchange::make_groups, false);
  if (!counted()) {
    sorted_ =
        activation("sorted experts", DType::kI32, {d.tokens, columns}, &ExpertExchange::make_groups, true);
    return;
  }
  const std::int64_t pairs = members_.members * members_.members, least = least_rows();
  const Shape arrivals{rows_, 1};
  loads_ = activation("loads", DType::kI32, {pairs, each}, &ExpertExchange::make_groups, true, pairs);
  arrival_order_ =
      activation("arrival order", DType::kI32, arrivals, &ExpertExchange::make_arrivals, true, least);
  arrival_place_ =
      activation("arrival place", DType::kI32, arrivals, &ExpertExchange::make_arrivals, false, least);
  sorted_ = activation("sorted experts", DType::kI32, arrivals, &ExpertExchange::make_arrivals, true, least);
  arrived_weights_ = activation("arrived weights", sum_, {rows_ + copied_, 1}, &ExpertExchange::make_weights,
                                false, least + copied_);
}

void ExpertExchange::make_groups(Pass& pass, Saved& saved) const {
  const TensorView choice = saved.get(pass, choice_), order = saved.put(pass, order_),
                   place = saved.put(pass, target_);
  traffic_.reset();
  ops::GroupByExpert op{.expert_count = experts_,
                        .experts = choice,
                        .order = order,
                        .place = place,
                        .sorted_experts = {},
                        .members = members_};
  if (!counted()) {
    op.sorted_experts = saved.put(pass, sorted_);
    return ops::run(pass.ops, op);
  }
  const TensorView loads = saved.put(pass, loads_);
  op.counts = loads.slice(members_.self * members_.members, members_.members);
  ops::run(pass.ops, op);
  if (!exchanges()) return;
  {
    Scratch::Frame frame(pass.ops.scratch);
    const TensorView own = pass.ops.scratch.allocate(DType::kI32, op.counts.shape);
    ops::run(pass.ops, ops::CopyRows{.x = op.counts, .index = {}, .y = own});
    pass.parallel.along(parallel::Group::kExpert).all_gather(own, loads, pass.ops.stream)->wait();
  }
  traffic_ = find_traffic(pass, loads, saved.shape(sorted_)[0], order.elements());
  if (traffic_->size() > 1) sort_by_part(pass, order, place);
}

void ExpertExchange::sort_by_part(Pass& pass, TensorView order, TensorView place) const {
  Scratch::Frame frame(pass.ops.scratch);
  const std::int64_t rows = order.elements();
  const auto list = [&] { return pass.ops.scratch.allocate(DType::kI32, {rows, 1}); };
  // Where the rows were; where they are, by where they were.
  const TensorView from = list(), to = list(), before = list();
  if (from.device != DeviceKind::kMeta) {
    const std::vector<std::int32_t> was = order_of_parts(*traffic_, members_.self, rows);
    std::vector<std::int32_t> is(was.size());
    for (std::size_t i = 0; i < was.size(); ++i)
      is[static_cast<std::size_t>(was[i])] = static_cast<std::int32_t>(i);
    pass.ops.device->copy_from_host(from.data, was.data(), from.bytes(), pass.ops.stream);
    pass.ops.device->copy_from_host(to.data, is.data(), to.bytes(), pass.ops.stream);
    pass.ops.stream.synchronize();  // before the vectors end
  }
  const TensorView orders = order.reshape({rows, 1}), places = place.reshape({rows, 1});
  ops::run(pass.ops, ops::CopyRows{.x = orders, .index = {}, .y = before});
  ops::run(pass.ops, ops::CopyRows{.x = before, .index = from.reshape({rows}), .y = orders});
  ops::run(pass.ops, ops::CopyRows{.x = places, .index = {}, .y = before});
  ops::run(pass.ops, ops::CopyRows{.x = to, .index = before.reshape({rows}), .y = places});
}

void ExpertExchange::group(Pass& pass, const ExpertPart& part, TensorView loads, const Arrivals& out) const {
  Scratch::Frame frame(pass.ops.scratch);
  TensorView counts = loads;
  if (place_.split()) {
    counts = pass.ops.scratch.allocate(DType::kI32, {senders().members, members_.experts_each(experts_)});
    if (counts.device != DeviceKind::kMeta) {
      pass.ops.device->copy_from_host(counts.data, part.counts.data(), counts.bytes(), pass.ops.stream);
      pass.ops.stream.synchronize();
    }
  }
  ops::run(pass.ops, ops::GroupArrivals{.self = senders().self,
                                        .counts = counts,
                                        .order = out.order,
                                        .place = out.place,
                                        .sorted_experts = out.sorted});
}

void ExpertExchange::make_arrivals(Pass& pass, Saved& saved) const {
  const TensorView loads = saved.get(pass, loads_);
  Arrivals out;
  out.order = saved.put(pass, arrival_order_);
  out.place = saved.put(pass, arrival_place_);
  out.sorted = saved.put(pass, sorted_);
  group(pass, traffic(pass, saved, 0), loads, out);
}

void ExpertExchange::make_weights(Pass& pass, Saved& saved) const {
  prepare(pass, saved);
  const TensorView weights = saved.get(pass, weights_), arrived = saved.put(pass, arrived_weights_);
  scatter(pass, saved, 0, weights.reshape({weights.elements(), 1}), arrived);
}

void ExpertExchange::prepare(Pass& pass, Saved& saved) const {
  for (const int activation : {order_, target_, sorted_}) saved.get(pass, activation);
  if (!counted()) return;
  for (const int activation : {loads_, arrival_order_, arrival_place_}) saved.get(pass, activation);
}

const std::vector<ExpertPart>& ExpertExchange::traffic(Pass& pass, Saved& saved) const {
  const TensorView loads = saved.get(pass, loads_), order = saved.get(pass, order_);
  if (!traffic_) traffic_ = find_traffic(pass, loads, saved.shape(sorted_)[0], order.elements());
  return *traffic_;
}

PartRows ExpertExchange::part_rows(std::int64_t most) const {
  constexpr std::int64_t kTogether = ops::kRowsTogether;
  // So small that later parts need less scratch memory than the first.
  return {most, std::max(PartRows::kFewest, (most / 8 + kTogether - 1) / kTogether * kTogether)};
}

// Without memory the load is taken as even, and as if more followed where it may.
std::vector<ExpertPart> ExpertExchange::find_traffic(Pass& pass, const TensorView& all, std::int64_t most,
                                                     std::int64_t copied) const {
  const ops::ExpertMembers senders = this->senders();
  const TensorView loads =
      place_.replicated ? all.slice(members_.self * members_.members + members_.self, 1) : all;
  const PartRows rows = spills_ ? part_rows(most) : PartRows{most, most};
  if (loads.device == DeviceKind::kMeta || !host_knows_count(loads)) {
    const auto members = static_cast<std::size_t>(senders.members);
    const auto even = [&](std::int64_t each) {
      ExpertPart part;
      part.sends.assign(members, each);
      part.comes = part.sends;
      part.own = each;
      part.sends[static_cast<std::size_t>(senders.self)] = 0;
      part.comes[static_cast<std::size_t>(senders.self)] = 0;
      part.sent = part.arrived = each * (senders.members - 1);
      return part;
    };
    const std::int64_t each =
        loads.device == DeviceKind::kMeta ? std::min(copied, most) / senders.members : copied;
    std::vector<ExpertPart> parts{even(each)};
    if (!spills_) return parts;
    parts.push_back(even(std::min(copied, rows.later) / senders.members));
    parts[1].cut = {.head = parts[1].came(), .head_expert = members_.experts_each(experts_) - 1};
    return parts;
  }
  if (loads.device == DeviceKind::kHost)
    return expert_parts(senders, {loads.as<std::int32_t>(), static_cast<std::size_t>(loads.elements())},
                        rows);
  std::vector<std::int32_t> counts(static_cast<std::size_t>(loads.elements()));
  pass.ops.device->copy_to_host(counts.data(), loads.data, loads.bytes(), pass.ops.stream);
  pass.ops.stream.synchronize();
  return expert_parts(senders, counts, rows);
}

int ExpertExchange::parts(Pass& pass, Saved& saved) const {
  return counted() ? static_cast<int>(traffic(pass, saved).size()) : 1;
}

Arrivals ExpertExchange::arrivals(Pass& pass, Saved& saved, int part, bool results) const {
  Arrivals out;
  out.part = part;
  out.sorted = saved.get(pass, sorted_);
  if (!counted()) {
    out.weights.order = saved.get(pass, order_);
    if (results) out.weights.weights = saved.get(pass, weights_);
    return out;
  }
  const ExpertPart& t = traffic(pass, saved, part);
  out.cut = t.cut;
  TensorView arrived;
  if (part == 0) {
    out.order = saved.get(pass, arrival_order_);
    if (!results) return out;
    out.place = saved.get(pass, arrival_place_);
    arrived = saved.get(pass, arrived_weights_);
  } else {
    const TensorView weights = saved.get(pass, weights_);
    const std::int64_t most = part_rows(saved.shape(sorted_)[0]).later;
    for (TensorView* list : {&out.order, &out.place, &out.sorted})
      *list = pass.ops.scratch.allocate(DType::kI32, {most, 1});
    group(pass, t, saved.get(pass, loads_), out);
    arrived = pass.ops.scratch.allocate(sum_, {most + copied_, 1});
    scatter(pass, saved, part, weights.reshape({weights.elements(), 1}), arrived);
  }
  out.weights = {out.order.slice(0, t.came()), arrived.slice(0, t.came())};
  return out;
}

TensorView ExpertExchange::came(Pass& pass, Saved& saved, const Arrivals& part, TensorView rows) const {
  return counted() ? rows.slice(0, traffic(pass, saved, part.part).came()) : rows;
}

// x [N, D]: every row goes to as many members as order has columns for it.
void ExpertExchange::scatter(Pass& pass, Saved& saved, int part, TensorView x, TensorView to) const {
  const ExpertPart& t = traffic(pass, saved, part);
  const TensorView order = saved.get(pass, order_);
  const std::int64_t copied = order.elements(), leaving = t.own + t.sent;
  if (leaving > 0)
    ops::run(pass.ops, ops::GatherRows{.x = x,
                                       .order = order.reshape({copied, 1}).slice(t.begin, leaving),
                                       .y = to.slice(t.arrived, leaving),
                                       .k = copied / x.rows()});
  if (!exchanges()) return;
  pass.parallel.along(parallel::Group::kExpert)
      .all_to_all_v(to.slice(t.came(), t.sent), t.sends, to.slice(0, t.arrived), t.comes, pass.ops.stream)
      ->wait();
}

void ExpertExchange::send(Pass& pass, Saved& saved, const Arrivals& part, TensorView x,
                          TensorView rows) const {
  if (!counted()) return ops::run(pass.ops, ops::GatherRows{.x = x, .order = part.weights.order, .y = rows});
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView all = pass.ops.scratch.allocate(x.dtype, {part.rows() + copied_, x.shape[1]});
  scatter(pass, saved, part.part, x, all);
  const auto came = [&](TensorView of) { return this->came(pass, saved, part, of); };
  if (came(rows).rows() > 0)
    ops::run(pass.ops, ops::GatherRows{.x = came(all), .order = came(part.order), .y = came(rows)});
}

TensorView ExpertExchange::open(Pass& pass, Saved& saved, DType type, std::int64_t columns,
                                TensorView y) const {
  if (counted()) return pass.ops.scratch.allocate(type, {rows_ + copied_, columns});
  return y ? y : pass.ops.scratch.allocate(type, {saved.get(pass, sorted_).elements(), columns});
}

TensorView ExpertExchange::outgoing(Pass& pass, const Arrivals& part, TensorView all) const {
  return counted() ? pass.ops.scratch.allocate(all.dtype, {part.rows(), all.shape[1]}) : all;
}

TensorView ExpertExchange::outgoing_weights(Pass& pass, Saved& saved, const Arrivals& part,
                                            TensorView all) const {
  if (!counted()) return all;
  return came(pass, saved, part,
              part.part == 0 ? all : pass.ops.scratch.allocate(all.dtype, {part.rows(), all.shape[1]}));
}

// All rows that come back follow each other, by part, behind the first part's that came.
void ExpertExchange::bring_back_weights(Pass& pass, Saved& saved, const Arrivals& part, TensorView rows,
                                        TensorView all) const {
  if (!counted()) return;
  const ExpertPart& t = traffic(pass, saved, part.part);
  const std::int64_t begin = traffic(pass, saved, 0).arrived + t.begin;
  if (part.part > 0 && t.own > 0)
    ops::run(pass.ops,
             ops::CopyRows{.x = rows.slice(t.arrived, t.own), .index = {}, .y = all.slice(begin, t.own)});
  if (!exchanges()) return;
  pass.parallel.along(parallel::Group::kExpert)
      .all_to_all_v(rows.slice(0, t.arrived), t.comes, all.slice(begin + t.own, t.sent), t.sends,
                    pass.ops.stream)
      ->wait();
}

void ExpertExchange::bring_back(Pass& pass, Saved& saved, const Arrivals& part, TensorView rows,
                                TensorView all) const {
  if (!counted()) return;
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView back = outgoing_weights(pass, saved, part, all);
  if (back.rows() > 0)
    ops::run(pass.ops, ops::SumRows{.x = came(pass, saved, part, rows),
                                    .place = came(pass, saved, part, part.place),
                                    .y = back});
  bring_back_weights(pass, saved, part, back, all);
}

void ExpertExchange::close(Pass& pass, Saved& saved, TensorView all, TensorView y) const {
  if (all.data == y.data) return;
  const TensorView place = saved.get(pass, target_);
  const std::int64_t copied = place.elements();
  TensorView rows = all;
  if (counted()) {
    const std::vector<ExpertPart>& parts = traffic(pass, saved);
    const ExpertPart& last = parts.back();
    const std::int64_t used = last.begin + last.own + last.sent;
    rows = all.slice(parts[0].arrived, copied);
    // Unused rows contribute zeros.
    if (limited_ || place_.replicated) ops::run(pass.ops, ops::FillZero{rows.slice(used, copied - used)});
  }
  ops::run(pass.ops, ops::SumRows{.x = rows, .place = place.reshape({y.rows(), copied / y.rows()}), .y = y});
}

}  // namespace stoa::nn
