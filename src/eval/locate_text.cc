#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "eval/json_number.h"
#include "eval/locate.h"

namespace stoa::eval {
namespace {

using ckpt::DumpPhase;

std::string name_of(const Location& at) {
  switch (at.phase) {
    case DumpPhase::kWeights:
      return "weight " + at.tensor + " before the step";
    case DumpPhase::kForward:
      return at.tensor;
    case DumpPhase::kBackward:
    case DumpPhase::kGradients:
      return "gradient of " + at.tensor;
  }
  return at.tensor;
}

std::string place_of(const Location& at) {
  std::string out = fmt::format("step {}", at.step);
  if (at.phase == DumpPhase::kForward || at.phase == DumpPhase::kBackward) {
    out += fmt::format(", {}", ckpt::name_of(at.phase));
    out += at.microbatch == at.microbatch_b
               ? fmt::format(", microbatch {}", at.microbatch)
               : fmt::format(", microbatch {} of A and {} of B", at.microbatch, at.microbatch_b);
  }
  if (at.tensor.starts_with("layers.")) out += fmt::format(", layer {}", at.layer);
  out += fmt::format(", {}", name_of(at));
  if (at.rank_a != 0 || at.rank_b != 0)
    out += fmt::format(" (rank {} of A, rank {} of B)", at.rank_a, at.rank_b);
  return out;
}

std::string index_of(const Location& at, std::int64_t length) {
  const std::string index = fmt::format("[{}]", fmt::join(at.index, ", "));
  const bool activation = at.phase == DumpPhase::kForward || at.phase == DumpPhase::kBackward;
  if (!activation || length <= 0 || at.index.empty()) return index;
  return fmt::format("{} (row {} of the batch, position {})", index, at.index[0] / length,
                     at.index[0] % length);
}

std::string values_of(const Location& at, std::int64_t length) {
  if (!at.problem.empty()) return at.problem;
  return fmt::format(
      "  |A - B| / |A| = {:.3g}, allowed {:.3g}; {} of {} elements beyond\n  worst element {}: {:.9g} and "
      "{:.9g}, apart "
      "{:.3g}",
      at.distance, at.allowed.norm, at.beyond, at.elements, index_of(at, length), at.a, at.b,
      std::fabs(at.a - at.b));
}

void list(std::string& out, const char* where, const std::vector<std::string>& names) {
  if (names.empty()) return;
  constexpr std::size_t kShown = 4;
  const std::size_t shown = std::min(kShown, names.size());
  out += fmt::format("only in {}: {}{}\n", where,
                     fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "");
}

nlohmann::ordered_json json_of(const std::optional<Location>& at) {
  if (!at) return nullptr;
  nlohmann::ordered_json out{{"step", at->step},
                             {"phase", ckpt::name_of(at->phase)},
                             {"microbatch", at->microbatch},
                             {"microbatch_b", at->microbatch_b},
                             {"layer", at->layer},
                             {"tensor", at->tensor},
                             {"rank_a", at->rank_a},
                             {"rank_b", at->rank_b}};
  if (!at->problem.empty()) {
    out["problem"] = at->problem;
    return out;
  }
  out.update({{"elements", at->elements},
              {"beyond", at->beyond},
              {"distance", json_number(at->distance)},
              {"allowed", json_number(at->allowed.norm)},
              {"share", json_number(at->share)},
              {"index", at->index},
              {"a", json_number(at->a)},
              {"b", json_number(at->b)}});
  return out;
}

}  // namespace

std::string to_text(const LocateResult& r) {
  std::string out = fmt::format(
      "compared step{} {}: {} tensors (parts of {} MB), {} of equal values; products in {} and {}\n",
      r.steps.size() == 1 ? "" : "s", fmt::join(r.steps, ", "), r.boxes,
      static_cast<std::int64_t>(std::ceil(r.bytes / 1e6)), r.equal, r.compute_a, r.compute_b);
  list(out, "A", r.only_a);
  list(out, "B", r.only_b);
  for (const auto& note : r.notes) out += "note: " + note + "\n";
  if (r.first_bit && (!r.first || place_of(*r.first_bit) != place_of(*r.first)))
    out += fmt::format("first difference of any size: {}\n{}\n", place_of(*r.first_bit),
                       values_of(*r.first_bit, r.length));
  if (r.first) {
    out += fmt::format("FIRST DIFFERENCE: {}\n{}\n", place_of(*r.first), values_of(*r.first, r.length));
  } else if (!r.first_bit) {
    out += "SAME to the last bit\n";
  } else {
    if (r.nearest)
      out += fmt::format("nearest to its limit ({:.0f} %): {}\n{}\n", 100 * r.nearest->share,
                         place_of(*r.nearest), values_of(*r.nearest, r.length));
    out += "SAME within rounding\n";
  }
  return out;
}

std::string to_json(const LocateResult& r) {
  return nlohmann::ordered_json{{"same", r.same()},
                                {"bit_equal", !r.first_bit && !r.first},
                                {"steps", r.steps},
                                {"tensors", r.boxes},
                                {"equal_tensors", r.equal},
                                {"first", json_of(r.first)},
                                {"first_of_any_size", json_of(r.first_bit)},
                                {"nearest", json_of(r.nearest)},
                                {"only_in_a", r.only_a},
                                {"only_in_b", r.only_b},
                                {"compute_a", r.compute_a},
                                {"compute_b", r.compute_b},
                                {"notes", r.notes}}
      .dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace stoa::eval
