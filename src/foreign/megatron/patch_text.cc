// The text of the user's file with the changes of a plan.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "foreign/megatron/patch.h"
#include "foreign/megatron/shell_script.h"
#include "foreign/megatron/shell_statements.h"
#include "foreign/yaml_patch.h"

namespace stoa::foreign {
namespace {

bool of_word(char c) { return is_name_char(c) || c == '-'; }

// Where arguments are written in a script: in arrays, in strings, on continued lines.
class ScriptText {
 public:
  explicit ScriptText(std::string text) : text_(std::move(text)) {}

  // False: `name` is nowhere in the text.
  bool set(std::string_view name, const std::vector<std::string>& values, std::size_t before) {
    bool found = false;
    for (std::size_t at = 0; (at = next(name, at)) != std::string::npos;) {
      found = true;
      const std::size_t end = values_end(at + 2 + name.size(), before);
      std::string fresh = fmt::format("--{}", name);
      for (const std::string& v : values) fresh += " " + word_at(at, v);
      text_.replace(at, end - at, fresh);
      at += fresh.size();
    }
    return found;
  }
  bool erase(std::string_view name, std::size_t values) {
    bool found = false;
    for (std::size_t at = 0; (at = next(name, at)) != std::string::npos;) {
      found = true;
      text_.erase(at, values_end(at + 2 + name.size(), values) - at);
    }
    return found;
  }
  bool add(const std::vector<WrittenArgument>& arguments, std::string_view after, std::size_t values) {
    const std::size_t at = next(after, 0);
    if (at == std::string::npos) return false;
    std::string fresh;
    for (const WrittenArgument& a : arguments) {
      fresh += fmt::format(" --{}", a.name);
      for (const std::string& v : a.values) fresh += " " + word_at(at, v);
    }
    text_.insert(values_end(at + 2 + after.size(), values), fresh);
    return true;
  }
  void note(const std::string& lines) {
    std::size_t at = 0;  // behind the first comments, which are for the kernel and for Slurm
    while (at < text_.size() && text_[at] == '#') at = std::min(text_.find('\n', at), text_.size() - 1) + 1;
    text_.insert(at, lines);
  }
  // The number of nodes that Slurm is asked for.
  void set_nodes(std::int64_t nodes) {
    for (std::size_t at = 0; (at = text_.find("#SBATCH", at)) != std::string::npos; at += 7) {
      const std::size_t end = std::min(text_.find('\n', at), text_.size());
      for (const std::string_view option : {"--nodes=", "--nodes ", "-N "}) {
        const std::size_t found = text_.find(option, at);
        if (found >= end) continue;
        const std::size_t begin = found + option.size();
        const std::size_t stop = std::min(text_.find_first_not_of("0123456789", begin), text_.size());
        if (stop > begin) text_.replace(begin, stop - begin, std::to_string(nodes));
      }
    }
  }
  std::string take() { return std::move(text_); }

 private:
  // The place of "--name" from `at` on, outside comments.
  std::size_t next(std::string_view name, std::size_t at) const {
    const std::string whole = fmt::format("--{}", name);
    for (; (at = text_.find(whole, at)) != std::string::npos; ++at) {
      const std::size_t end = at + whole.size();
      if ((at > 0 && of_word(text_[at - 1])) || (end < text_.size() && of_word(text_[end]))) continue;
      std::size_t line = at;
      while (line > 0 && text_[line - 1] != '\n') --line;
      const std::string_view before(text_.data() + line, at - line);
      const auto hash = before.find('#');
      if (hash == std::string_view::npos || (hash > 0 && !is_blank(before[hash - 1]))) return at;
    }
    return at;
  }
  std::size_t values_end(std::size_t at, std::size_t count) const {
    const ShellSpan span(text_, name_);
    for (std::size_t i = 0; i < count && at < text_.size(); ++i) {
      std::size_t begin = at;
      while (begin < text_.size() && (is_blank(text_[begin]) || text_[begin] == '=' || continues(begin)))
        begin += continues(begin) ? 2 : 1;
      const std::size_t first = begin;
      while (begin < text_.size() && !is_blank(text_[begin]) && text_[begin] != ')' && !continues(begin)) {
        const bool quote = text_[begin] == '"' || text_[begin] == '\'';
        if (quote && begin != first) break;  // of the string around it
        begin = span.after(begin);
      }
      at = begin;
    }
    return at;
  }
  bool continues(std::size_t at) const {
    return text_[at] == '\\' && at + 1 < text_.size() && text_[at + 1] == '\n';
  }
  // A value at this place. Within a string in double quotes, which the shell splits at blanks alone, it has
  // no quotes.
  std::string word_at(std::size_t at, const std::string& value) const {
    std::size_t line = at;
    while (line > 0 && !(text_[line - 1] == '\n' && (line < 2 || text_[line - 2] != '\\'))) --line;
    int quotes = 0;
    for (std::size_t i = line; i < at; ++i) quotes += text_[i] == '"' && (i == 0 || text_[i - 1] != '\\');
    return quotes % 2 == 0 ? shell_quoted(value) : value;
  }

  std::string text_;
  const std::string name_ = "the script";
};

std::string mark_lines(const MegatronPatch& patch, const std::string& title) {
  const auto changes = patch.changes();
  std::string out = fmt::format("# {}; changed by the plan:{}\n", title, changes.empty() ? " nothing" : "");
  for (const std::string& change : changes) out += fmt::format("#   {}\n", change);
  return out;
}

std::vector<WrittenArgument> arguments_of(const std::vector<std::string>& words) {
  std::vector<WrittenArgument> out;
  for (const GivenArgument& a : read_megatron_command(words).arguments) out.push_back({a.name, a.values});
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

bool says_the_same(const MegatronText& text, const MegatronPatch& patch) {
  std::vector<WrittenArgument> expected = patch.arguments;
  std::sort(expected.begin(), expected.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return arguments_of(text.words) == expected;
}

// torchrun's words, with the number of ranks of the plan.
void start_ranks(std::vector<std::string>& launcher, const PlannedRanks& ranks) {
  const auto set = [&](std::initializer_list<std::string_view> names, std::int64_t value) {
    for (std::size_t i = 0; i < launcher.size(); ++i)
      for (const std::string_view name : names) {
        if (launcher[i] == name && i + 1 < launcher.size()) launcher[i + 1] = std::to_string(value);
        if (launcher[i].starts_with(fmt::format("{}=", name)))
          launcher[i] = fmt::format("{}={}", name, value);
      }
  };
  set({"--nproc_per_node", "--nproc-per-node", "--num_gpus"}, ranks.per_node);
  set({"--nnodes", "--num_nodes"}, ranks.nodes);
}

// "deepspeed --num_gpus 8 pretrain_gpt.py", which starts DeepSpeed's copy of Megatron-LM.
bool of_deepspeed(const std::vector<std::string>& launcher) {
  return std::find(launcher.begin(), launcher.end(), "deepspeed") != launcher.end();
}

std::string standalone(MegatronPatch patch, const PlannedRanks& ranks, const std::string& title) {
  std::string out = fmt::format("#!/bin/bash\n# {}\n", title);
  for (const std::string& text : patch.removed) out += fmt::format("# left out by the plan: {}\n", text);
  out += "MEGATRON_ARGS=(\n";
  for (const WrittenArgument& a : patch.arguments)
    out += fmt::format("    {}{}\n", a.text(), a.mark.empty() ? "" : fmt::format("  # plan: {}", a.mark));
  out += ")\n";
  if (of_deepspeed(patch.launcher)) patch.launcher.erase(patch.launcher.begin(), patch.launcher.end() - 1);
  start_ranks(patch.launcher, ranks);
  if (patch.launcher.size() <= 1) {  // no more than the program: torchrun starts it
    out += fmt::format("torchrun --nproc-per-node {} --nnodes {}", ranks.per_node, ranks.nodes);
    if (ranks.nodes > 1)
      out += " --rdzv-backend c10d --rdzv-endpoint \"${MASTER_ADDR}:${MASTER_PORT:-29500}\"";
    out += fmt::format(" \"${{MEGATRON_LM:-.}}/{}\"",
                       patch.launcher.empty() ? "pretrain_gpt.py" : patch.launcher.front());
  } else {
    for (std::size_t i = 0; i < patch.launcher.size(); ++i)
      out += fmt::format("{}{}", i > 0 ? " " : "", shell_quoted(patch.launcher[i]));
  }
  out += " \"${MEGATRON_ARGS[@]}\"";
  for (const std::string& word : patch.open_words) out += " " + word;
  return out + "\n";
}

std::string in_script(const MegatronText& source, const MegatronPatch& patch, const PlannedRanks& ranks,
                      const std::string& title) {
  require<ConfigError>(!of_deepspeed(patch.launcher), "DeepSpeed's launcher starts it");
  const MegatronCommand before = read_megatron_command(source.words);
  const auto count = [&](std::string_view name) -> std::optional<std::size_t> {
    for (const GivenArgument& a : before.arguments)
      if (a.name == name) return a.values.size();
    return {};
  };
  ScriptText text(source.text);
  const auto written = [](bool found, std::string_view name) {
    require<ConfigError>(found, "--{} is not written in its text as it is passed", name);
  };
  for (const GivenArgument& a : before.arguments)
    if (std::none_of(patch.arguments.begin(), patch.arguments.end(),
                     [&](const auto& other) { return other.name == a.name; }))
      written(text.erase(a.name, a.values.size()), a.name);
  std::string_view anchor;
  for (const GivenArgument& a : before.arguments)
    if (a.name == "num-layers" || a.name == "encoder-num-layers") anchor = a.name;
  std::vector<WrittenArgument> added;
  for (const WrittenArgument& a : patch.arguments) {
    if (a.mark.empty()) continue;
    if (const auto values = count(a.name))
      written(text.set(a.name, a.values, *values), a.name);
    else
      added.push_back(a);
  }
  if (!added.empty()) written(text.add(added, anchor, 1), anchor);
  // Ranks that torchrun starts, where the script says how many.
  if (before.devices && *before.devices != ranks.per_node)
    for (const char* name : {"nproc_per_node", "nproc-per-node", "num_gpus"})
      text.set(name, {std::to_string(ranks.per_node)}, 1);
  if (before.nodes && *before.nodes != ranks.nodes) {
    for (const char* name : {"nnodes", "num_nodes"}) text.set(name, {std::to_string(ranks.nodes)}, 1);
    text.set_nodes(ranks.nodes);
  }
  text.note(mark_lines(patch, title));
  return text.take();
}

std::string in_yaml(const MegatronText& source, const MegatronPatch& patch, const std::string& title) {
  const MegatronCommand before = read_megatron_command(source.words);
  // Keys as they are written: with or without their dashes.
  const bool dashes = source.text.find("--") != std::string::npos;
  const auto path = [&](const std::string& name) {
    return fmt::format("MODEL_ARGS.{}{}", dashes ? "--" : "", name);
  };
  std::vector<YamlChange> changes;
  for (const GivenArgument& a : before.arguments)
    if (std::none_of(patch.arguments.begin(), patch.arguments.end(),
                     [&](const auto& other) { return other.name == a.name; }))
      changes.push_back({path(a.name), {}, "left out"});
  for (const WrittenArgument& a : patch.arguments) {
    if (a.mark.empty()) continue;
    std::string value = "true";
    if (a.values.size() == 1) value = config::write_yaml(config::Node::plain(a.values[0]));
    if (a.values.size() > 1) value = fmt::format("[{}]", fmt::join(a.values, ", "));
    while (value.ends_with('\n')) value.pop_back();
    changes.push_back({path(a.name), value, a.mark});
  }
  return fmt::format("# {}\n", title) + patch_yaml(source.text, changes);
}

}  // namespace

std::string patched_text(const MegatronText& source, MegatronPatch patch, const PlannedRanks& ranks,
                         const std::string& title, std::string& note) {
  using Kind = MegatronText::Kind;
  if (source.kind == Kind::kArguments) return standalone(std::move(patch), ranks, title);
  if (source.kind == Kind::kYaml && source.whole) return in_yaml(source, patch, title);
  try {
    require<ConfigError>(source.whole,
                         "its arguments come from other scripts, or from what stands around it");
    std::string text = in_script(source, patch, ranks, title);
    require<ConfigError>(says_the_same(megatron_text(Kind::kScript, text, source.name), patch),
                         "its arguments are made in a way that a change of the text does not reach");
    return text;
  } catch (const Error& error) {
    note = fmt::format("{}: {}; written as a script of its own", source.name, error.what());
    return standalone(std::move(patch), ranks, title);
  }
}

}  // namespace stoa::foreign
