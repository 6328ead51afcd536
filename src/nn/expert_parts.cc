#include "nn/expert_parts.h"

#include <algorithm>
#include <numeric>

namespace stoa::nn {
namespace {

// The rows of one member, sorted by expert and, within one, by sender.
class Receiver {
 public:
  Receiver(std::span<const std::int32_t> loads, std::int64_t members, std::int64_t self)
      : loads_(loads),
        members_(members),
        each_(static_cast<std::int64_t>(loads.size()) / (members * members)),
        self_(self) {
    for (std::int64_t e = 0; e < each_; ++e) {
      std::int64_t rows = 0;
      for (std::int64_t m = 0; m < members_; ++m) rows += load(m, e);
      begin_.push_back(begin_.back() + rows);
    }
  }

  std::int64_t rows() const { return begin_.back(); }
  std::int64_t load(std::int64_t sender, std::int64_t expert) const {
    return loads_[static_cast<std::size_t>((sender * members_ + self_) * each_ + expert)];
  }

  // Where parts begin, and the end of the last.
  std::vector<std::int64_t> bounds(PartRows most) const {
    constexpr std::int64_t kTogether = ops::kRowsTogether;
    std::vector<std::int64_t> out{0};
    std::int64_t room = most.first;
    for (std::int64_t e = 0; e < each_; ++e)
      for (std::int64_t at = begin(e); at < begin(e + 1);) {
        const std::int64_t left = begin(e + 1) - at;
        std::int64_t taken = left;
        if (left > room) {
          taken = room / kTogether * kTogether;
          if (left - taken < kTogether) taken -= kTogether;
          taken = std::max<std::int64_t>(taken, 0);
        }
        at += taken;
        room -= taken;
        if (taken == left) continue;
        out.push_back(at);
        room = most.later;
      }
    out.push_back(rows());
    return out;
  }

  // Rows among [from, to) that a member sends for an expert.
  std::int64_t rows_of(std::int64_t sender, std::int64_t expert, std::int64_t from, std::int64_t to) const {
    std::int64_t first = begin(expert);
    for (std::int64_t m = 0; m < sender; ++m) first += load(m, expert);
    const std::int64_t end = std::min(to, first + load(sender, expert));
    return std::max<std::int64_t>(0, end - std::max(from, first));
  }
  std::int64_t rows_of(std::int64_t sender, std::int64_t from, std::int64_t to) const {
    std::int64_t sum = 0;
    for (std::int64_t e = 0; e < each_; ++e) sum += rows_of(sender, e, from, to);
    return sum;
  }

  RowCut cut(std::int64_t from, std::int64_t to) const {
    RowCut out;
    for (std::int64_t e = 0; e < each_; ++e) {
      const std::int64_t first = std::max(from, begin(e)), end = std::min(to, begin(e + 1));
      if (first >= end) continue;
      if (first > begin(e)) {
        out.head = end - first, out.head_expert = e;
        out.head_ends = end == begin(e + 1);
      } else if (end < begin(e + 1)) {
        out.tail = end - first, out.tail_expert = e;
      }
    }
    return out;
  }

 private:
  std::int64_t begin(std::int64_t expert) const { return begin_[static_cast<std::size_t>(expert)]; }

  std::span<const std::int32_t> loads_;
  std::int64_t members_, each_, self_;
  std::vector<std::int64_t> begin_{0};  // of every expert's rows
};

}  // namespace

std::vector<ExpertPart> expert_parts(const ops::ExpertMembers& members, std::span<const std::int32_t> loads,
                                     PartRows most) {
  const std::int64_t count = members.members, self = members.self,
                     each = static_cast<std::int64_t>(loads.size()) / (count * count);
  std::vector<Receiver> receivers;
  std::vector<std::vector<std::int64_t>> bounds;
  std::size_t most_parts = 1;
  for (std::int64_t m = 0; m < count; ++m) {
    bounds.push_back(receivers.emplace_back(loads, count, m).bounds(most));
    most_parts = std::max(most_parts, bounds.back().size() - 1);
  }
  std::vector<ExpertPart> parts(most_parts);
  std::int64_t begin = 0;
  for (std::size_t p = 0; p < most_parts; ++p) {
    ExpertPart& part = parts[p];
    part.begin = begin;
    part.counts.assign(static_cast<std::size_t>(count * each), 0);
    const auto range = [&](std::int64_t m) {
      const auto& all = bounds[static_cast<std::size_t>(m)];
      return std::pair{all[std::min(p, all.size() - 1)], all[std::min(p + 1, all.size() - 1)]};
    };
    const auto [from, to] = range(self);
    const Receiver& here = receivers[static_cast<std::size_t>(self)];
    for (std::int64_t m = 0; m < count; ++m) {
      const auto [first, end] = range(m);
      part.sends.push_back(receivers[static_cast<std::size_t>(m)].rows_of(self, first, end));
      std::int64_t comes = 0;
      for (std::int64_t e = 0; e < each; ++e) {
        const std::int64_t rows = here.rows_of(m, e, from, to);
        part.counts[static_cast<std::size_t>(m * each + e)] = static_cast<std::int32_t>(rows);
        comes += rows;
      }
      part.comes.push_back(comes);
    }
    part.own = std::exchange(part.sends[static_cast<std::size_t>(self)], 0);
    part.comes[static_cast<std::size_t>(self)] = 0;
    part.sent = std::accumulate(part.sends.begin(), part.sends.end(), std::int64_t{0});
    part.arrived = std::accumulate(part.comes.begin(), part.comes.end(), std::int64_t{0});
    if (most_parts > 1) part.cut = here.cut(from, to);
    begin += part.own + part.sent;
  }
  return parts;
}

std::vector<std::int32_t> order_of_parts(const std::vector<ExpertPart>& parts, std::int64_t self,
                                         std::int64_t rows) {
  // The next row to each member, in the order of ops::GroupByExpert: own rows, then those for each member.
  const std::size_t members = parts[0].sends.size();
  std::vector<std::int64_t> next(members);
  std::int64_t at = 0;
  for (const ExpertPart& part : parts) at += part.own;
  for (std::size_t m = 0; m < members; ++m) {
    if (static_cast<std::int64_t>(m) == self) continue;
    next[m] = at;
    for (const ExpertPart& part : parts) at += part.sends[m];
  }
  std::vector<std::int32_t> order;
  order.reserve(static_cast<std::size_t>(rows));
  const auto take = [&](std::size_t member, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) order.push_back(static_cast<std::int32_t>(next[member]++));
  };
  for (const ExpertPart& part : parts) {
    take(static_cast<std::size_t>(self), part.own);
    for (std::size_t m = 0; m < members; ++m) take(m, part.sends[m]);
  }
  for (auto last = static_cast<std::int64_t>(order.size()); last < rows; ++last)
    order.push_back(static_cast<std::int32_t>(last));
  return order;
}

}  // namespace stoa::nn
