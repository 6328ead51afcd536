// How a family's files name and arrange tensors: tables, no behaviour.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/model_spec.h"

namespace stoa::model::huggingface {

// Rows file_row, file_row + file_step, … of a tensor in the file are rows [row, row + rows) of a part.
struct RowRun {
  std::size_t part = 0;
  std::int64_t file_row = 0, row = 0, rows = 0, file_step = 1;
};
using Arrangement = std::vector<RowRun> (*)(const ModelConfig& config,
                                            const std::vector<CanonicalTensor>& parts);
// The parts follow each other.
std::vector<RowRun> stacked(const ModelConfig& config, const std::vector<CanonicalTensor>& parts);
// Head by head, for `heads` heads: the rows of head 0 of every part, then those of head 1.
std::vector<RowRun> in_heads(std::int64_t heads, const std::vector<CanonicalTensor>& parts);
// The same for the attention heads of the configuration.
std::vector<RowRun> by_head(const ModelConfig& config, const std::vector<CanonicalTensor>& parts);

// Row by row: row 0 of every part, then row 1.
std::vector<RowRun> interleaved(const ModelConfig& config, const std::vector<CanonicalTensor>& parts);
// For each key head: its queries, the key, the value. The parts are q, k and v.
std::vector<RowRun> by_group(const ModelConfig& config, const std::vector<CanonicalTensor>& parts);
// Heads whose rotated channels are stored pair by pair in the file (GLM, Cohere); canonical tensors have the
// first members of all pairs before the second ones.
std::vector<RowRun> paired_heads(const ModelConfig& config, const std::vector<CanonicalTensor>& parts);

// An odd number of rotated channels: paired_heads cannot tell the last pair from unrotated channels.
bool rotates_odd_part(const ModelConfig& config);

// Names omit ".weight" or ".bias", which both sides share; {} stands for a number (layer, expert).
struct NameRule {
  std::string_view file;                // "transformer.h.{}.attn.c_attn"
  std::vector<std::string_view> parts;  // canonical: "layers.{}.attention.q", ...
  Arrangement arrange = stacked;
  bool transposed = false;     // stored transposed (gpt2's Conv1D)
  std::string_view also = {};  // another name that files may use
  bool zero_centered = false;  // the file holds the weights, not biases, minus 1 (Gemma's norms)
  bool suffix = true;          // false: the names are complete
  // One tensor in the file for all experts, [E, …]: the last {} of a part stands for each of them.
  bool packed = false;
  std::string_view module = {};  // of a packed rule: the parameter in transformers' modules, if not `file`
  bool depthwise = false;        // the file has a dimension of 1 after the rows (torch's depthwise Conv1d)
  // The rule applies only to configurations for which this is true; null: to all.
  bool (*when)(const ModelConfig& config) = nullptr;
};

struct NameMap {
  std::string_view prefix;  // of names; missing in files of a model without head
  std::vector<NameRule> rules;
  std::vector<std::string_view> other_prefixes = {};  // used by some files instead
  // Tensors in files that are not needed: buffers of older versions whose content follows from the
  // configuration. `name` is without prefix.
  bool (*needless)(std::string_view name, const ModelConfig& config) = nullptr;
  // Whether config.json may wrongly say that the head is tied, when the file has one unlike the embedding.
  bool (*head_may_untie)(const ModelConfig& config) = nullptr;
};

// Inserts rules before the existing ones: the first rule that matches applies.
void add_rules(NameMap& names, const std::vector<NameRule>& rules);

}  // namespace stoa::model::huggingface
