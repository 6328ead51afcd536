#include "eval/compare_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ckpt/find_checkpoint.h"
#include "ckpt/tensor_directory.h"
#include "ckpt/tensor_source.h"
#include "eval/compare_metrics.h"
#include "eval/compare_tensors.h"
#include "eval/json_number.h"
#include "eval/python/text.h"
#include "foreign/checkpoint/rearranged_source.h"
#include "infer/model_files.h"

namespace stoa::eval {
namespace {

bool is_run(const fs::path& path) {
  return fs::is_directory(path / "checkpoints") || fs::exists(path / "metrics.jsonl");
}

std::optional<std::int64_t> newest_common_step(const fs::path& a, const fs::path& b) {
  const auto steps = [](const fs::path& run) {
    std::vector<std::int64_t> found;
    if (fs::is_directory(run / "checkpoints"))
      for (const auto& c : ckpt::list_checkpoints(run / "checkpoints"))
        if (c.manifest) found.push_back(c.step);
    return found;
  };
  const auto in_b = steps(b);
  std::optional<std::int64_t> newest;
  for (const auto step : steps(a))
    if (std::find(in_b.begin(), in_b.end(), step) != in_b.end() && (!newest || step > *newest)) newest = step;
  return newest;
}

void compare_counters(const ckpt::TrainingState& a, const ckpt::TrainingState& b, double tolerance,
                      std::vector<std::string>& out) {
  const auto check = [&](std::string_view name, const auto& x, const auto& y) {
    if (x != y) out.push_back(fmt::format("{}: {} and {}", name, x, y));
  };
  check("step", a.step, b.step);
  check("samples", a.samples, b.samples);
  check("tokens", a.tokens, b.tokens);
  check("data cursor", a.data_cursor, b.data_cursor);
  check("seed", a.seed, b.seed);
  check("step scalars", a.loss_scale.size(), b.loss_scale.size());
  for (std::size_t i = 0; i < std::min(a.loss_scale.size(), b.loss_scale.size()); ++i) {
    const double x = a.loss_scale[i], y = b.loss_scale[i];
    if (relative_difference(x, y, std::max(std::fabs(x), std::fabs(y))) > tolerance)
      out.push_back(fmt::format("step scalar {}: {} and {}", i, x, y));
  }
  check("counters", a.counters, b.counters);
  check("tokenizer", a.tokenizer_fingerprint, b.tokenizer_fingerprint);
}

// The tensors of both models; where one is another program's, under the names of Stoa.
std::shared_ptr<const ckpt::TensorSource> comparable(const ckpt::FoundCheckpoint& found, bool canonical) {
  if (found.adapter || !canonical) return ckpt::open_found(found);
  const infer::ModelFiles files(found.model);
  std::shared_ptr<const ckpt::TensorSource> view = foreign::rearranged(
      files.tensors(), files.model(), *files.description().family, model::huggingface::stoa_family());
  require<DataError>(
      view != nullptr,
      "'{}': files of family {} hold norms minus 1 and cannot be compared with another program's",
      found.model.string(), files.description().family->type);
  return view;
}

bool compare_checkpoints(const ckpt::FoundCheckpoint& a, const ckpt::FoundCheckpoint& b, double tolerance,
                         Comparison& out) {
  using Kind = ckpt::FoundCheckpoint::Kind;
  const bool canonical = a.kind == Kind::kForeign || b.kind == Kind::kForeign;
  bool same = compare_tensors(*comparable(a, canonical), *comparable(b, canonical),
                              a.adapter ? "adapter/" : "model/", tolerance, out);
  if (a.state && b.state) {
    same &= compare_tensors(ckpt::TensorDirectory(*a.state, ckpt::kStateStem),
                            ckpt::TensorDirectory(*b.state, ckpt::kStateStem), "state/", tolerance, out);
    compare_counters(a.manifest->training, b.manifest->training, tolerance, out.counters);
    same &= out.counters.empty();
  } else if (a.state || b.state) {
    out.notes.push_back("only one side has a training state: weights alone were compared");
  }
  std::stable_sort(out.different.begin(), out.different.end(),
                   [](const auto& x, const auto& y) { return x.relative > y.relative; });
  return same;
}

}  // namespace

Comparison compare_runs(const fs::path& a, const fs::path& b, const CompareOptions& options) {
  require<ConfigError>(options.tolerance >= 0 && std::isfinite(options.tolerance),
                       "the tolerance must be 0 or more, got {}", options.tolerance);
  Comparison out;
  out.tolerance = options.tolerance;
  bool same = true;
  if (is_run(a) && is_run(b)) {
    same &= compare_metrics(a, b, options.tolerance, out);
    out.checkpoint_step = newest_common_step(a, b);
    if (out.checkpoint_step) {
      const auto at = [&](const fs::path& run) {
        return ckpt::find_checkpoint(run / "checkpoints" / ckpt::checkpoint_name(*out.checkpoint_step));
      };
      same &= compare_checkpoints(at(a), at(b), options.tolerance, out);
    } else {
      out.notes.push_back("no step of which both runs have a checkpoint");
    }
    require<DataError>(out.steps > 0 || out.checkpoint_step,
                       "'{}' and '{}' have nothing in common to compare: no logged step and no checkpoint",
                       a.string(), b.string());
  } else {
    const auto found_a = ckpt::find_checkpoint(a), found_b = ckpt::find_checkpoint(b);
    same &= compare_checkpoints(found_a, found_b, options.tolerance, out);
    if (found_a.manifest && found_b.manifest &&
        found_a.manifest->training.step == found_b.manifest->training.step)
      out.checkpoint_step = found_a.manifest->training.step;
    out.notes.push_back("tensors only: not both are run directories");
  }
  out.same = same;
  return out;
}

std::string to_text(const Comparison& c) {
  std::string out;
  if (!c.curves.empty()) {
    out += fmt::format("curves: {} logged steps in both, {} only in A, {} only in B\n", c.steps, c.only_a,
                       c.only_b);
    for (const auto& d : c.curves) {
      if (d.relative == 0) {
        out += fmt::format("  {:<10}  {} values: equal to the last bit\n", d.metric, d.points);
      } else {
        out += fmt::format(
            "  {:<10}  {} values, {} beyond the tolerance{}; worst at step {}: {} and {} (relative {:.2e})\n",
            d.metric, d.points, d.different, d.first_step ? fmt::format(" from step {}", *d.first_step) : "",
            d.worst_step, d.a, d.b, d.relative);
      }
    }
  }
  if (c.tensors > 0) {
    out += fmt::format("tensors{}: {} of {} equal to the last bit, {} beyond the tolerance\n",
                       c.checkpoint_step ? fmt::format(" at step {}", *c.checkpoint_step) : "",
                       c.equal_tensors, c.tensors, c.different.size());
    constexpr std::size_t kShown = 10;
    for (std::size_t i = 0; i < std::min(kShown, c.different.size()); ++i) {
      const auto& d = c.different[i];
      out += d.problem.empty()
                 ? fmt::format("  {}: {} of {} elements; worst [{}]: {} and {} (relative {:.2e})\n", d.name,
                               d.different, d.elements, fmt::join(d.index, ", "), d.a, d.b, d.relative)
                 : fmt::format("  {}: {}\n", d.name, d.problem);
    }
    if (c.different.size() > kShown) out += fmt::format("  and {} more\n", c.different.size() - kShown);
  }
  for (const auto& line : c.counters) out += line + "\n";
  for (const auto& note : c.notes) out += "note: " + note + "\n";
  const std::string limit = c.tolerance == 0 ? "to the last bit" : fmt::format("within {}", c.tolerance);
  out += c.same ? fmt::format("SAME {}\n", limit) : fmt::format("DIFFERENT (asked: equal {})\n", limit);
  return out;
}

std::string to_json(const Comparison& c) {
  Json curves = Json::object();
  for (const auto& d : c.curves)
    curves[d.metric] = {{"points", d.points},
                        {"different", d.different},
                        {"first_step", d.first_step ? Json(*d.first_step) : Json()},
                        {"worst_step", d.worst_step},
                        {"a", json_number(d.a)},
                        {"b", json_number(d.b)},
                        {"relative", json_number(d.relative)}};
  Json different = Json::array();
  for (const auto& d : c.different) {
    Json entry{{"name", d.name}, {"elements", d.elements}, {"different", d.different}};
    if (d.problem.empty()) {
      entry.update({{"index", d.index},
                    {"a", json_number(d.a)},
                    {"b", json_number(d.b)},
                    {"relative", json_number(d.relative)}});
    } else {
      entry["problem"] = d.problem;
    }
    different.push_back(std::move(entry));
  }
  return Json{{"same", c.same},
              {"tolerance", c.tolerance},
              {"steps", c.steps},
              {"steps_only_in_a", c.only_a},
              {"steps_only_in_b", c.only_b},
              {"curves", std::move(curves)},
              {"checkpoint_step", c.checkpoint_step ? Json(*c.checkpoint_step) : Json()},
              {"tensors", c.tensors},
              {"equal_tensors", c.equal_tensors},
              {"different_tensors", std::move(different)},
              {"counters", c.counters},
              {"notes", c.notes}}
      .dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace stoa::eval
