#include "eval/locate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "eval/box_compare.h"

namespace stoa::eval {
namespace {

using ckpt::DumpPhase;
using ckpt::DumpRecord;

using Name = std::pair<DumpPhase, std::string>;

// The order in which a step computes its tensors: forward through the layers, backward from the last one.
auto order_of(const DumpRecord& r) {
  const bool down = r.phase == DumpPhase::kBackward || r.phase == DumpPhase::kGradients;
  return std::tuple(r.phase, r.microbatch, down ? -r.layer : r.layer, r.order, r.rank);
}

std::map<Name, std::vector<const DumpRecord*>> by_name(const std::vector<DumpRecord>& records) {
  std::map<Name, std::vector<const DumpRecord*>> out;
  for (const auto& record : records) out[{record.phase, record.tensor}].push_back(&record);
  return out;
}

std::string text_of(const Name& name) {
  const bool gradient = name.first == DumpPhase::kBackward || name.first == DumpPhase::kGradients;
  return gradient ? "gradient of " + name.second
                  : (name.first == DumpPhase::kWeights ? "weight " : "") + name.second;
}

class Locator {
 public:
  Locator(ckpt::DumpReader& a, ckpt::DumpReader& b, const LocateOptions& options)
      : a_(a), b_(b), options_(options), tolerance_(compute(a), compute(b), inner(a), layers(a)) {
    out_.compute_a = compute(a);
    out_.compute_b = compute(b);
    out_.length = std::max(a.headers()[0].length, b.headers()[0].length);
  }

  LocateResult run() {
    const auto in_b = b_.steps();
    for (const auto step : a_.steps())
      if (std::find(in_b.begin(), in_b.end(), step) != in_b.end()) out_.steps.push_back(step);
    for (const auto* reader : {&a_, &b_})
      out_.notes.insert(out_.notes.end(), reader->notes().begin(), reader->notes().end());
    require<DataError>(!out_.steps.empty(), "'{}' and '{}' have no dumped step in common{}",
                       a_.directory().string(), b_.directory().string(),
                       out_.notes.empty() ? "" : ": " + out_.notes.front());
    for (const auto step : out_.steps) {
      compare_step(step);
      if (out_.first) break;  // what comes after follows from it
    }
    require<DataError>(out_.boxes > 0 || out_.first, "'{}' and '{}' have no tensor in common at step {}",
                       a_.directory().string(), b_.directory().string(), out_.steps.front());
    return std::move(out_);
  }

 private:
  static std::string compute(const ckpt::DumpReader& reader) { return reader.headers()[0].compute; }
  static std::int64_t layers(const ckpt::DumpReader& reader) { return reader.headers()[0].layers; }
  // The longest sum in a GEMM, estimated as the width of the widest activation.
  static std::int64_t inner(const ckpt::DumpReader& reader) {
    std::int64_t widest = 1;
    for (const auto step : reader.steps())
      for (const auto& record : reader.records(step))
        if (record.phase == DumpPhase::kForward && record.global.size() == 2)
          widest = std::max(widest, record.global[1]);
    return widest;
  }

  // A step moves an element by about its learning rate.
  double moved_before(std::int64_t step) const {
    if (step == 1) return 0;
    double rate = 0;
    for (const auto* reader : {&a_, &b_})
      for (const auto s : reader->steps())
        if (const auto end = reader->end(s); end && end->rate) rate = std::max(rate, *end->rate);
    return rate > 0 ? rate * static_cast<double>(step - 1) : std::numeric_limits<double>::infinity();
  }

  void compare_step(std::int64_t step) {
    tolerance_.start_step(moved_before(step));
    const auto names_a = by_name(a_.records(step)), names_b = by_name(b_.records(step));
    note_missing(names_a, names_b, out_.only_a);
    note_missing(names_b, names_a, out_.only_b);
    find_scales(step);
    std::vector<const DumpRecord*> records;
    for (const auto& record : a_.records(step))
      if (names_b.contains({record.phase, record.tensor})) records.push_back(&record);
    std::sort(records.begin(), records.end(),
              [](const auto* x, const auto* y) { return order_of(*x) < order_of(*y); });
    for (const DumpRecord* record : records)
      for (const DumpRecord* other : names_b.at({record->phase, record->tensor})) {
        compare(*record, *other);
        if (out_.first) return;
      }
  }

  static void note_missing(const std::map<Name, std::vector<const DumpRecord*>>& from,
                           const std::map<Name, std::vector<const DumpRecord*>>& in,
                           std::vector<std::string>& out) {
    for (const auto& [name, records] : from)
      if (!in.contains(name) && std::find(out.begin(), out.end(), text_of(name)) == out.end())
        out.push_back(text_of(name));
  }

  // Some gradients (that of a key's bias) are nothing but rounding. Their errors are small compared with the
  // gradients of the same kind in the layer, so those set the scale.
  void find_scales(std::int64_t step) {
    scales_.clear();
    std::map<std::pair<std::int64_t, std::size_t>, std::pair<double, double>> sums;
    for (const auto& record : a_.records(step)) {
      if (record.phase != DumpPhase::kGradients || !is_float(*ckpt::memory_type(record.type))) continue;
      auto& [squares, count] = sums[{record.layer, record.global.size()}];
      squares += sum_of_squares(a_.bytes(record), record);
      count += static_cast<double>(record.elements());
    }
    for (const auto& [kind, sum] : sums)
      scales_[kind] = sum.second > 0 ? std::sqrt(sum.first / sum.second) : 0;
  }

  void compare(const DumpRecord& a, const DumpRecord& b) {
    Location at;
    at.step = a.step;
    at.phase = a.phase;
    at.microbatch = a.microbatch;
    at.microbatch_b = b.microbatch;
    at.layer = a.layer;
    at.tensor = a.tensor;
    at.rank_a = a.rank;
    at.rank_b = b.rank;
    if (a.global != b.global) {
      at.problem = shape_text(a.global) + " and " + shape_text(b.global);
      out_.first = std::move(at);
      return;
    }
    const auto box = intersect(a, b);
    if (!box) return;
    const auto left = a_.bytes(a), right = b_.bytes(b);
    ++out_.boxes;
    at.elements = box->elements();
    out_.bytes += static_cast<double>(at.elements) * static_cast<double>(ckpt::size_of(a.type));
    if (equal_bits(*box, a, left, b, right)) {
      ++out_.equal;
      return;
    }
    at.allowed = options_.tolerance ? Allowed{*options_.tolerance, *options_.tolerance, 0}
                                    : tolerance_.of(a, b, at.elements);
    const auto scale = scales_.find({a.layer, a.global.size()});
    const BoxDifference d =
        compare_boxes(*box, a, left, b, right, at.allowed,
                      a.phase == DumpPhase::kGradients && scale != scales_.end() ? scale->second : 0);
    at.beyond = d.beyond;
    at.distance = d.distance;
    at.index = d.index;
    at.a = d.a;
    at.b = d.b;
    at.share = d.share;
    // Matrices only: biases start at zero, so that their relative distance is large from the first step on.
    if (a.phase == DumpPhase::kWeights && a.global.size() > 1) tolerance_.add_drift(d.distance);
    if (d.distance == 0) {
      ++out_.equal;  // of another type, or zeros of another sign
      return;
    }
    if (!out_.first_bit) out_.first_bit = at;
    if (at.share > 1)
      out_.first = std::move(at);
    else if (!out_.nearest || at.share > out_.nearest->share)
      out_.nearest = std::move(at);
  }

  ckpt::DumpReader &a_, &b_;
  const LocateOptions options_;
  Tolerance tolerance_;
  std::map<std::pair<std::int64_t, std::size_t>, double> scales_;  // by layer and number of dimensions
  LocateResult out_;
};

}  // namespace

LocateResult locate(ckpt::DumpReader& a, ckpt::DumpReader& b, const LocateOptions& options) {
  return Locator(a, b, options).run();
}

}  // namespace stoa::eval
