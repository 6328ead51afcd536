#include "foreign/megatron/reading.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "config/value.h"
#include "foreign/megatron/shell_script.h"

namespace stoa::foreign {
namespace {

std::string_view without_dashes(std::string_view name) {
  while (name.starts_with('-')) name.remove_prefix(1);
  return name;
}

bool among(std::string_view list, std::string_view word) {
  for (std::size_t at = 0; at < list.size();) {
    const auto end = std::min(list.find(' ', at), list.size());
    if (list.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

std::string model_key(std::string_view argument) {
  std::string key = fmt::format("model.{}", argument);
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

MegatronReading::MegatronReading(MegatronCommand command, const MegatronOptions& options)
    : command_(std::move(command)), options_(options) {
  for (GivenArgument& a : command_.arguments)
    if (const auto it = options_.shown.find(a.name); it != options_.shown.end()) a.shown = it->second;
}

const GivenArgument* MegatronReading::find(std::string_view name) const {
  const auto it = std::find_if(command_.arguments.begin(), command_.arguments.end(),
                               [&](const GivenArgument& a) { return a.name == name; });
  return it == command_.arguments.end() ? nullptr : &*it;
}

bool MegatronReading::take(std::string_view name) {
  if (!has(name)) return false;
  taken_.emplace(name);
  return true;
}

std::optional<std::string> MegatronReading::value(std::string_view name) {
  if (!take(name)) return {};
  const auto& values = find(name)->values;
  return values.empty() ? std::string() : values.front();
}

std::optional<std::string> MegatronReading::value_unless_none(std::string_view name) {
  auto given = value(name);
  if (given == "null" || given == "None") given.reset();
  return given;
}

std::int64_t MegatronReading::whole_of(const GivenArgument& a) const {
  const auto number = config::parse_integer(a.values.empty() ? "" : a.values.front());
  require<UsageError>(number.has_value(), "--from-megatron: {}: expected a whole number", a.text());
  return *number;
}

std::optional<std::int64_t> MegatronReading::whole(std::string_view name) {
  if (!take(name)) return {};
  return whole_of(*find(name));
}

std::optional<double> MegatronReading::real(std::string_view name) {
  if (!take(name)) return {};
  const GivenArgument& a = *find(name);
  const auto number = config::parse_real(a.values.empty() ? "" : a.values.front());
  require<UsageError>(number.has_value(), "--from-megatron: {}: expected a number", a.text());
  return *number;
}

void MegatronReading::set(std::string_view key, std::string value) {
  const auto [it, fresh] = values_.insert_or_assign(std::string(key), std::move(value));
  if (fresh) order_.push_back(it->first);
}

void MegatronReading::set_default(std::string_view key, std::string value) {
  if (is_set(key)) return;
  defaults_.push_back(fmt::format("{} {}", key, value));
  set(key, std::move(value));
}

std::int64_t MegatronReading::number(std::string_view key, std::int64_t otherwise) const {
  const auto it = values_.find(std::string(key));
  if (it == values_.end()) return otherwise;
  return config::parse_integer(it->second).value_or(otherwise);
}

void MegatronReading::refuse(std::string_view name, std::string_view reason) {
  taken_.emplace(name);
  refused_.push_back(fmt::format("{} ({})", find(name)->text(), reason));
  refused_names_.emplace_back(name);
}

void MegatronReading::trains_differently(std::string_view name, std::string_view reason) {
  if (!only_looked_at()) return refuse(name, reason);
  taken_.emplace(name);
  note(fmt::format("{}: {}. The plan is the same; 'stoa train' refuses it", find(name)->text(), reason));
}

void MegatronReading::only_estimated(std::string_view name, std::string_view reason) {
  if (!only_looked_at()) return refuse(name, reason);
  if (options_.purpose == Purpose::kShow)
    note(fmt::format("{}: {}. Plans estimate it for Megatron-LM; 'stoa train' refuses it", find(name)->text(),
                     reason));
}

bool MegatronReading::changed(std::string_view key) const {
  const auto below = [](std::string_view part, std::string_view whole) {
    return part.starts_with(whole) && (part.size() == whole.size() || part[whole.size()] == '.');
  };
  return std::any_of(options_.changes.begin(), options_.changes.end(), [&](std::string_view change) {
    while (change.starts_with('+')) change.remove_prefix(1);
    const auto name = change.substr(0, change.find('='));
    return below(name, key) || below(key, name);
  });
}

// What --ignore names is not read at all.
void MegatronReading::leave_out() {
  for (const std::string& given : options_.ignore) {
    const std::string name(without_dashes(given));
    const GivenArgument* a = find(name);
    if (!a) {
      std::vector<std::string> names;
      for (const GivenArgument& b : command_.arguments) names.push_back(b.name);
      throw UsageError(fmt::format("--ignore {}: the command line of Megatron-LM has no --{}{}", given, name,
                                   did_you_mean(name, names)));
    }
    note(fmt::format("left out by --ignore: {}", a->text()));
    std::erase_if(command_.arguments, [&](const GivenArgument& b) { return b.name == name; });
  }
}

// Variables of a script that it does not set: allowed where the argument has no effect or names a file.
void MegatronReading::open_values() {
  constexpr std::string_view kFiles[] = {"tokenizer-model", "tokenizer-name-or-path", "vocab-file",
                                         "merge-file",      "deepspeed_config",       "deepspeed-config"};
  std::vector<std::string> variables;
  for (const GivenArgument& a : command_.arguments) {
    if (!a.row || a.row->use == Use::kNone || a.row->use == Use::kRefused || a.row->use == Use::kNotTrained ||
        a.row->text.starts_with("when training:") ||  // run() asks for these one by one
        std::find(std::begin(kFiles), std::end(kFiles), a.name) != std::end(kFiles))
      continue;
    for (const std::string& v : a.values)
      for (const std::string& name : open_variables(v))
        variables.push_back(fmt::format("${} of {}", name, a.text()));
  }
  require<UsageError>(
      variables.empty(),
      "--from-megatron: the script does not set {}: write the value{} into it, or leave the argument{} "
      "out with --ignore",
      fmt::join(variables, ", "), variables.size() == 1 ? "" : "s", variables.size() == 1 ? "" : "s");
  if (!command_.open_words.empty())
    note(fmt::format("not set by the script, and taken as empty: {}", fmt::join(command_.open_words, " ")));
}

bool MegatronReading::with_experts() const {
  const GivenArgument* experts = find("num-experts");
  return experts && config::parse_integer(experts->values.front()).value_or(0) > 1;
}

void MegatronReading::take_rows() {
  for (const GivenArgument& a : command_.arguments) {
    if (!a.row) {
      unknown_.push_back(fmt::format("--{}{}", a.name, did_you_mean(a.name, megatron_argument_names())));
      continue;
    }
    const bool of_experts = a.row->text.starts_with("model.moe_") || a.row->text.starts_with("model.expert_");
    if (a.row->use == Use::kKey && of_experts && !with_experts()) {
      out_.ignored.push_back(fmt::format("{} (has no effect without --num-experts)", a.text()));
    } else if (a.row->use == Use::kKey) {
      const auto equals = a.row->text.find('=');
      if (a.row->arity == Arity::kFlag)
        set(a.row->text.substr(0, equals), std::string(a.row->text.substr(equals + 1)));
      else
        set(a.row->text, a.values.front());
    } else if (a.row->use == Use::kRefused || a.row->use == Use::kNotTrained) {
      const bool neutral =
          !a.values.empty() && std::all_of(a.values.begin(), a.values.end(),
                                           [&](const auto& v) { return among(a.row->neutral, v); });
      if (neutral)
        out_.ignored.push_back(fmt::format("{} (asks for what Stoa does anyway)", a.text()));
      else if (a.row->use == Use::kNotTrained)
        trains_differently(a.name, a.row->text);
      else
        refuse(a.name, a.row->text);
    } else if (a.row->use == Use::kNone) {
      out_.ignored.push_back(fmt::format("{} ({})", a.text(), a.row->text));
    }
  }
}

void MegatronReading::report_rest() {
  for (const GivenArgument& a : command_.arguments)
    if (a.row && a.row->use == Use::kOther && !taken_.contains(a.name))
      out_.ignored.push_back(fmt::format("{} (has no effect in this command: {})", a.text(), a.row->text));
}

void MegatronReading::finish() {
  std::string message;
  const auto add = [&](const std::string& part) { message += (message.empty() ? "" : "; ") + part; };
  if (!unknown_.empty())
    add(fmt::format("neither Megatron-LM nor Megatron-DeepSpeed has {} {}",
                    unknown_.size() == 1 ? "the argument" : "the arguments", fmt::join(unknown_, ", ")));
  for (const std::string& name : missing_) add(fmt::format("{} is missing", name));
  for (const std::string& need : needs_)
    if (options_.purpose == Purpose::kTrain)
      add(need);
    else
      note("before it can be trained: " + need);
  if (!refused_.empty()) {
    const bool recipe = !options_.shown.empty();
    std::string ignore;
    for (const std::string& name : refused_names_) {
      const std::string& shown = find(name)->shown;
      ignore += recipe ? fmt::format(" {}=null", shown.substr(0, shown.find(':'))) : " --ignore " + name;
    }
    const char* const word = recipe ? "key" : "argument";
    add(fmt::format("Stoa does not do what {} ask{} for: {}. To read the others without:{}",
                    refused_.size() == 1 ? fmt::format("this {}", word)
                                         : fmt::format("these {} {}s", refused_.size(), word),
                    refused_.size() == 1 ? "s" : "", fmt::join(refused_, ", "), ignore));
  }
  require<UsageError>(message.empty(), "--from-megatron: {}", message);
  for (const std::string& key : order_) out_.overrides.push_back(fmt::format("{}={}", key, values_.at(key)));
  if (!defaults_.empty())
    out_.notes.insert(out_.notes.begin(), fmt::format("Megatron's defaults: {}", fmt::join(defaults_, ", ")));
}

MegatronArguments MegatronReading::read() {
  leave_out();
  open_values();
  take_rows();
  kind();
  layers();
  state_space();
  shape();
  positions();
  attention();
  activation();
  experts();
  further_tokens();
  pipeline();
  sharding();
  context();
  recomputation();
  offloading();
  precision();
  batch();
  balancing();
  optimizer();
  state_types();
  schedule();
  data();
  vocabulary();
  run();
  report_rest();
  finish();
  return std::move(out_);
}

MegatronArguments read_megatron_words(const std::vector<std::string>& words, const MegatronOptions& options) {
  return MegatronReading(read_megatron_command(words), options).read();
}

MegatronArguments read_megatron_arguments(std::string_view text, const MegatronOptions& options) {
  return read_megatron_words(shell_words(text), options);
}

}  // namespace stoa::foreign
