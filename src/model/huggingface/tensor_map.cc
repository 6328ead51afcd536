#include "model/huggingface/tensor_map.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "model/huggingface/task_keys.h"

namespace stoa::model::huggingface {
namespace {

// "layers.3.moe.experts.7.up" as "layers.{}.moe.experts.{}.up" and its numbers.
struct Pattern {
  std::string text;
  std::vector<std::string> numbers;
};

Pattern pattern_of(std::string_view name) {
  Pattern out;
  while (!name.empty()) {
    const std::string_view word = name.substr(0, name.find('.'));
    const bool number = !word.empty() && word.find_first_not_of("0123456789") == word.npos;
    if (number) out.numbers.emplace_back(word);
    out.text += number ? "{}" : word;
    name.remove_prefix(word.size());
    if (name.empty()) break;
    out.text += '.';
    name.remove_prefix(1);
  }
  return out;
}

// As many of the numbers as the pattern has holes.
std::string filled(std::string_view pattern, const std::vector<std::string>& numbers) {
  std::string out;
  for (const std::string& number : numbers) {
    const std::size_t hole = pattern.find("{}");
    if (hole == pattern.npos) break;
    out += pattern.substr(0, hole);
    out += number;
    pattern.remove_prefix(hole + 2);
  }
  return out += pattern;
}

std::string_view without_prefix(std::string_view name, const NameMap& names) {
  for (const std::string_view other : names.other_prefixes)
    if (name.starts_with(other)) return name.substr(other.size());
  const std::string_view prefix = names.prefix;
  return !prefix.empty() && name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

Tensor make_tensor(const ModelConfig& config, const NameRule& rule, const Pattern& pattern,
                   std::string_view suffix, std::vector<CanonicalTensor> parts) {
  const auto name = [&](std::string_view file) {
    return filled(file, pattern.numbers) + std::string(suffix);
  };
  const std::int64_t experts = rule.packed ? *config.moe.num_moe_experts : 1;
  Tensor out{.name = name(rule.file),
             .shape = parts.front().shape,
             .parts = std::move(parts),
             .runs = {},
             .transposed = false,
             .experts = experts,
             .also = rule.also.empty() ? "" : name(rule.also),
             .module = filled(rule.module, pattern.numbers),
             .zero_centered = rule.zero_centered && suffix != ".bias"};
  const std::vector<CanonicalTensor> own(
      out.parts.begin(),
      out.parts.begin() + static_cast<std::ptrdiff_t>(out.parts.size() / static_cast<std::size_t>(experts)));
  std::int64_t rows = 0;
  for (const auto& part : own) rows += part.shape[0];
  out.shape.set(0, rows);
  out.runs = rule.arrange(config, own);
  if (rule.depthwise) out.shape = {rows, 1, out.shape[1]};
  if (rule.transposed && out.shape.rank() == 2) {
    out.transposed = true;
    out.shape = {out.shape[1], rows};
  }
  if (rule.packed)
    out.shape = out.shape.rank() == 2 ? Shape{experts, out.shape[0], out.shape[1]} : Shape{experts, rows};
  return out;
}

std::string list(const std::vector<std::string>& names) {
  std::string out;
  constexpr std::size_t kMost = 4;
  for (std::size_t i = 0; i < std::min(kMost, names.size()); ++i) out += (i ? ", " : "") + names[i];
  if (names.size() > kMost) out += fmt::format(" and {} more", names.size() - kMost);
  return out;
}

// Calls copy(part, file offset, part offset, count) for runs of elements that are neighbours in both.
template <class Copy>
void for_runs(const Tensor& tensor, const Copy& copy) {
  const int leading = tensor.experts > 1 ? 1 : 0;
  const bool matrix = tensor.shape.rank() - leading == 2;
  const std::int64_t height = tensor.shape[leading],
                     width = matrix               ? tensor.shape[leading + 1]
                             : tensor.experts > 1 ? 1
                                                  : tensor.shape.inner(),
                     columns = tensor.transposed ? height : width;
  const std::size_t parts = tensor.parts.size() / static_cast<std::size_t>(tensor.experts);
  for (std::int64_t expert = 0; expert < tensor.experts; ++expert)
    for (const RowRun& run : tensor.runs) {
      const std::int64_t first = expert * height * width;
      const std::size_t part = static_cast<std::size_t>(expert) * parts + run.part;
      if (!tensor.transposed && run.file_step == 1) {
        copy(part, first + run.file_row * columns, run.row * columns, run.rows * columns);
        continue;
      }
      if (!tensor.transposed) {
        for (std::int64_t r = 0; r < run.rows; ++r)
          copy(part, first + (run.file_row + r * run.file_step) * columns, (run.row + r) * columns, columns);
        continue;
      }
      // Tiles, so that both sides stay in cache. File [columns, all rows]; canonical [rows, columns].
      constexpr std::int64_t kTile = 32;
      for (std::int64_t c0 = 0; c0 < columns; c0 += kTile)
        for (std::int64_t r0 = 0; r0 < run.rows; r0 += kTile)
          for (std::int64_t c = c0; c < std::min(columns, c0 + kTile); ++c)
            for (std::int64_t r = r0; r < std::min(run.rows, r0 + kTile); ++r)
              copy(part, first + c * width + run.file_row + r * run.file_step, (run.row + r) * columns + c,
                   1);
    }
}

// Adds to values in place.
void shift(std::byte* data, std::int64_t count, DType type, double by) {
  dispatch_float(type, [&]<class T>() {
    auto* values = reinterpret_cast<T*>(data);
    for (std::int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<T, double>)
        values[i] += by;
      else
        values[i] = T(static_cast<float>(static_cast<double>(static_cast<float>(values[i])) + by));
    }
  });
}

}  // namespace

std::vector<RowRun> stacked(const ModelConfig&, const std::vector<CanonicalTensor>& parts) {
  std::vector<RowRun> out;
  std::int64_t row = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    out.push_back({p, row, 0, parts[p].shape[0]});
    row += parts[p].shape[0];
  }
  return out;
}

std::vector<RowRun> in_heads(std::int64_t heads, const std::vector<CanonicalTensor>& parts) {
  std::vector<RowRun> out;
  std::int64_t row = 0;
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const std::int64_t rows = parts[p].shape[0] / heads;
      out.push_back({p, row, head * rows, rows});
      row += rows;
    }
  return out;
}

std::vector<RowRun> interleaved(const ModelConfig&, const std::vector<CanonicalTensor>& parts) {
  std::vector<RowRun> out;
  const auto step = static_cast<std::int64_t>(parts.size());
  for (std::size_t p = 0; p < parts.size(); ++p)
    out.push_back({p, static_cast<std::int64_t>(p), 0, parts[p].shape[0], step});
  return out;
}

std::vector<RowRun> by_group(const ModelConfig& c, const std::vector<CanonicalTensor>&) {
  const std::int64_t head = c.head_size(), queries = c.num_attention_heads / c.query_groups() * head;
  std::vector<RowRun> out;
  for (std::int64_t g = 0, row = 0; g < c.query_groups(); ++g, row += queries + 2 * head) {
    out.push_back({0, row, g * queries, queries});
    out.push_back({1, row + queries, g * head, head});
    out.push_back({2, row + queries + head, g * head, head});
  }
  return out;
}

void add_rules(NameMap& names, const std::vector<NameRule>& rules) {
  names.rules.insert(names.rules.begin(), rules.begin(), rules.end());
}

bool rotates_odd_part(const ModelConfig& config) { return config.rotary_channels() % 2 != 0; }

std::vector<RowRun> paired_heads(const ModelConfig& config, const std::vector<CanonicalTensor>& parts) {
  const std::int64_t head = config.head_size(), rotated = config.rotary_size();
  std::vector<RowRun> out;
  for (std::int64_t row = 0; row < parts.front().shape[0]; row += head) {
    for (std::int64_t i = 0; i < rotated / 2; ++i) {
      out.push_back({0, row + 2 * i, row + i, 1});
      out.push_back({0, row + 2 * i + 1, row + rotated / 2 + i, 1});
    }
    if (rotated < head) out.push_back({0, row + rotated, row + rotated, head - rotated});
  }
  return out;
}

std::vector<RowRun> by_head(const ModelConfig& config, const std::vector<CanonicalTensor>& parts) {
  return in_heads(config.num_attention_heads, parts);
}

std::vector<Tensor> tensors(const ModelSpec& spec, const Family& family) {
  const NameMap names = names_with_head(family, spec.config);
  std::map<std::string_view, const NameRule*> rule_of;  // by pattern of a part
  for (const NameRule& rule : names.rules)
    if (!rule.when || rule.when(spec.config))
      for (const std::string_view part : rule.parts) rule_of.emplace(part, &rule);

  const std::vector<CanonicalTensor> all = canonical_tensors(spec);
  std::map<std::string_view, const CanonicalTensor*> left;
  for (const auto& tensor : all)
    if (!tensor.adapter) left.emplace(tensor.name, &tensor);

  std::vector<Tensor> out;
  for (const auto& tensor : all) {
    if (!left.contains(tensor.name)) continue;  // went with an earlier one
    const std::size_t dot = tensor.name.rfind('.');
    Pattern pattern = pattern_of(tensor.name);
    std::string suffix;
    if (const auto whole = rule_of.find(pattern.text); whole == rule_of.end() || whole->second->suffix) {
      suffix = tensor.name.substr(dot);
      pattern = pattern_of(tensor.name.substr(0, dot));
    }
    if (names.rules.empty()) {
      out.push_back(make_tensor(spec.config, {.file = pattern.text, .parts = {}}, pattern, suffix, {tensor}));
      continue;
    }
    const auto rule = rule_of.find(pattern.text);
    require<InternalError>(rule != rule_of.end(), "family {} has no name for '{}'", family.type, tensor.name);
    std::vector<CanonicalTensor> parts;
    const std::int64_t experts = rule->second->packed ? *spec.config.moe.num_moe_experts : 1;
    for (std::int64_t expert = 0; expert < experts; ++expert)
      for (const std::string_view part : rule->second->parts) {
        std::vector<std::string> numbers = pattern.numbers;
        if (rule->second->packed) numbers.back() = std::to_string(expert);
        const auto found = left.find(filled(part, numbers) + suffix);
        require<InternalError>(found != left.end(), "'{}' has only some of its parts", rule->second->file);
        parts.push_back(*found->second);
        left.erase(found);
      }
    out.push_back(make_tensor(spec.config, *rule->second, pattern, suffix, std::move(parts)));
  }
  return out;
}

void gather(const Tensor& tensor, DType type, const ReadPart& canonical, std::byte* file) {
  const auto bytes = [&](std::int64_t count) { return static_cast<std::size_t>(count) * size_of(type); };
  std::vector<const std::byte*> parts;
  for (const auto& part : tensor.parts) parts.push_back(canonical(part));
  for_runs(tensor, [&](std::size_t p, std::int64_t in_file, std::int64_t in_part, std::int64_t count) {
    std::memcpy(file + bytes(in_file), parts[p] + bytes(in_part), bytes(count));
  });
  if (tensor.zero_centered) shift(file, tensor.shape.elements(), type, -1);
}

void scatter(const Tensor& tensor, DType type, const std::byte* file, const WritePart& canonical) {
  const auto bytes = [&](std::int64_t count) { return static_cast<std::size_t>(count) * size_of(type); };
  std::vector<std::byte*> parts;
  for (const auto& part : tensor.parts) parts.push_back(canonical(part));
  for_runs(tensor, [&](std::size_t p, std::int64_t in_file, std::int64_t in_part, std::int64_t count) {
    std::memcpy(parts[p] + bytes(in_part), file + bytes(in_file), bytes(count));
  });
  for (std::size_t p = 0; tensor.zero_centered && p < parts.size(); ++p)
    shift(parts[p], tensor.parts[p].shape.elements(), type, 1);
}

Match match(std::span<const Tensor> wanted, std::span<const FileTensor> file, const Family& family,
            const ModelConfig& config, bool head_optional) {
  const NameMap names = names_with_head(family, config);
  std::map<std::string_view, const FileTensor*> offered;
  for (const auto& tensor : file) offered.emplace(without_prefix(tensor.name, names), &tensor);
  const auto find = [&](std::string_view name) { return offered.find(without_prefix(name, names)); };
  // The head of a language model, which a tied model or one of another task does not have.
  const bool other_task = config.kind == ModelKind::kGpt && config.task.labelled();
  std::vector<std::string> heads;
  if (config.ties_head() || other_task)
    for (const NameRule& rule : names.rules)
      if (rule.parts.front() == "head")
        for (const std::string_view name : {rule.file, rule.also})
          for (const char* const part : {".weight", ".bias"})
            if (!name.empty()) heads.push_back(std::string(name) + part);
  if (other_task && names.rules.empty()) heads = {"head.weight", "head.bias"};
  const auto is_head = [&](std::string_view name) {
    return std::find(heads.begin(), heads.end(), name) != heads.end();
  };

  Match out;
  std::vector<std::string> missing, unexpected, misshapen;
  for (const auto& tensor : wanted) {
    auto found = find(tensor.name);
    if (found == offered.end() && !tensor.also.empty()) found = find(tensor.also);
    if (tensor.parts.front().name == "embedding.tokens.weight")
      for (const auto& head : heads)
        if (found == offered.end()) found = find(head);
    if (head_optional && found == offered.end() && tensor.parts.front().name.starts_with("head.")) {
      out.names.emplace_back();
      continue;
    }
    if (found == offered.end() || !found->second) {
      missing.push_back(tensor.name);
      continue;
    }
    if (!(found->second->shape == tensor.shape))
      misshapen.push_back(fmt::format("{} {} (expected {})", found->second->name, found->second->shape.text(),
                                      tensor.shape.text()));
    out.names.push_back(found->second->name);
    found->second = nullptr;
  }
  for (const auto& [name, tensor] : offered) {
    if (!tensor) continue;
    if ((names.needless && names.needless(name, config)) || (other_task && is_head(name)))
      out.ignored.push_back(tensor->name);
    else if (is_head(name))
      out.head_beside_tied = tensor->name;
    else
      unexpected.push_back(tensor->name);
  }
  if (missing.empty() && unexpected.empty() && misshapen.empty()) return out;
  std::string message = fmt::format("the tensors in the file are not those of this {} model:", family.type);
  if (!missing.empty()) message += fmt::format(" missing: {}.", list(missing));
  if (!misshapen.empty()) message += fmt::format(" of another shape: {}.", list(misshapen));
  if (!unexpected.empty()) message += fmt::format(" unexpected: {}.", list(unexpected));
  throw DataError(message);
}

}  // namespace stoa::model::huggingface
