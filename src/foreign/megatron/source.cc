// What --from-megatron is given: arguments, a shell script, or a YAML file of Megatron's functional tests.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "config/node.h"
#include "config/yaml.h"
#include "foreign/megatron/command_line.h"
#include "foreign/megatron/one_script.h"
#include "foreign/megatron/reading.h"
#include "foreign/megatron/shell_script.h"
#include "foreign/megatron/shell_statements.h"
#include "foreign/megatron_arguments.h"

namespace stoa::foreign {
namespace {

using Variables = std::map<std::string, std::string>;

// A scalar with the variables of its environment, left open where they are not given.
std::string with_variables(std::string_view text, const Variables& given) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '$' || at + 1 == text.size()) {
      out += text[at++];
      continue;
    }
    const bool braces = text[at + 1] == '{';
    std::size_t end = at + 1 + braces;
    const std::size_t begin = end;
    while (end < text.size() && is_name_char(text[end])) ++end;
    const std::string name(text.substr(begin, end - begin));
    if (const auto value = given.find(name); value != given.end())
      out += value->second;
    else
      out += open_variable(name);
    at = braces ? std::min(text.find('}', end), text.size() - 1) + 1 : end;
  }
  return out;
}

void add_scalar(std::vector<std::string>& words, const std::string& name, const std::string& text,
                const Variables& given) {
  const MegatronArgument* row = find_megatron_argument(std::string_view(name).substr(2));
  const bool many = row && (row->arity == Arity::kAny || row->arity == Arity::kSome);
  if (many && !text.starts_with('(')) {  // several values in one scalar: "0.9 1.0", "[mlp moe_act]"
    const bool brackets = text.starts_with('[') && text.ends_with(']');
    const std::string inner = brackets ? text.substr(1, text.size() - 2) : text;
    for (const std::string& word : shell_words(with_variables(inner, given))) words.push_back(word);
    return;
  }
  words.push_back(with_variables(text, given));
}

// MODEL_ARGS: a map of arguments, `true` for those without a value, false for those that are not given.
std::vector<std::string> words_of_yaml(const config::Node& root, const std::string& path,
                                       const Variables& given) {
  const config::Node *arguments = root.find("MODEL_ARGS"), *mode = root.find("MODE");
  const bool neox =
      !arguments && std::any_of(root.entries.begin(), root.entries.end(), [](const auto& entry) {
        return entry.first == "num_layers" || entry.first == "num-layers" || entry.first == "hidden_size";
      });
  require<UsageError>(!neox,
                      "--from-megatron {}: its keys are those of GPT-NeoX, which Stoa does not read: write "
                      "them as arguments of Megatron-LM (num_layers: 24 is --num-layers 24) or as keys of "
                      "Stoa (model.num_layers: 24)",
                      path);
  require<UsageError>(arguments && arguments->kind == config::Node::Kind::kMap,
                      "--from-megatron {}: no MODEL_ARGS in it: expected a map such as '--num-layers: 24'",
                      path);
  require<UsageError>(!mode || mode->scalar != "inference",
                      "--from-megatron {}: MODE: inference: expected a command that trains", path);
  for (const auto& [key, value] : arguments->entries)
    require<UsageError>(!key.starts_with("--trainer."),
                        "--from-megatron {}: {} is an argument of NeMo 2: expected those of Megatron-LM "
                        "(NeMo's recipes are given by their names: docs/from-nemo.md)",
                        path, key);
  std::vector<std::string> words;
  for (const auto& [key, value] : arguments->entries) {
    const std::string name = key.starts_with("--") ? key : "--" + key;
    using Kind = config::Node::Kind;
    if (value.kind == Kind::kNull) continue;
    if (value.kind == Kind::kScalar && value.scalar == "false") continue;
    words.push_back(name);
    if (value.kind == Kind::kSequence) {
      for (const config::Node& item : value.items) words.push_back(with_variables(item.scalar, given));
    } else {
      require<UsageError>(value.kind == Kind::kScalar, "--from-megatron {}: {}: expected a value or a list",
                          path, key);
      if (value.scalar != "true") add_scalar(words, name, value.scalar, given);
    }
  }
  return words;
}

// The file that the text names, with what stands around it; otherwise the text is arguments.
std::pair<MegatronText::Kind, std::string> named_file(const std::string& text, ScriptStart& start) {
  using Kind = MegatronText::Kind;
  std::vector<std::string> words;
  try {
    words = shell_words(text);
  } catch (const UsageError&) {  // a quote without its end: the arguments say so
    return {Kind::kArguments, {}};
  }
  std::size_t at = 0;
  for (; at < words.size(); ++at) {
    const auto given = assignment_of(words[at]);
    if (!given) break;
    start.variables[given->first] = given->second;
  }
  if (at + 1 < words.size() && (words[at] == "bash" || words[at] == "sh" || words[at] == "sbatch")) ++at;
  if (at >= words.size()) return {Kind::kArguments, {}};
  const std::string& path = words[at];
  if ((path.ends_with(".yaml") || path.ends_with(".yml")) && at + 1 == words.size())
    return {Kind::kYaml, path};
  if (!is_script_path(path)) return {Kind::kArguments, {}};
  if (at + 1 < words.size())
    start.words.emplace(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
  return {Kind::kScript, path};
}

MegatronText text_of(MegatronText::Kind kind, std::string text, std::string name, const ScriptStart& start) {
  using Kind = MegatronText::Kind;
  MegatronText out{kind, std::move(text), std::move(name), {}, {}};
  if (kind == Kind::kArguments) {
    out.words = shell_words(out.text);
  } else if (kind == Kind::kScript) {
    ScriptCommand command = read_shell_script(out.text, out.name, start);
    out.whole = start.empty() && !command.of_several;
    if (!out.whole) {
      if (auto one = as_one_script(out.text, out.name, command, start)) {
        out.text = std::move(*one);
        out.whole = true;
      }
    }
    out.words = std::move(command.words);
    out.notes = std::move(command.notes);
    const bool by_torch = std::any_of(out.words.begin(), out.words.end(), [](const std::string& w) {
      return w.ends_with("torchrun") || w == "torch.distributed.run" || w == "torch.distributed.launch";
    });
    if (!by_torch && command.devices.value_or(1) > 1) {  // srun starts a task for each rank
      out.devices = command.devices;
      out.nodes = command.nodes;
    }
  } else {
    std::vector<std::string> repeated;
    out.words =
        words_of_yaml(config::parse_yaml(out.text, out.name, 0, &repeated), out.name, start.variables);
    for (const std::string& key : repeated)
      out.notes.push_back(key + " is given twice: the last counts, as in Megatron's tests");
    // test_cases/bert/NAME/model_config.yaml does not name its program.
    for (const auto& [folder, program] : {std::pair{"/bert/", "pretrain_bert.py"},
                                          {"/t5/", "pretrain_t5.py"},
                                          {"test_cases/hybrid/", "pretrain_hybrid.py"},
                                          {"test_cases/mimo/", "examples/mimo/train.py"},
                                          {"test_cases/multimodal-llava/", "pretrain_vlm.py"}})
      if (out.name.find(folder) != std::string::npos) out.words.insert(out.words.begin(), program);
    out.whole = start.empty();
  }
  return out;
}

}  // namespace

MegatronText megatron_text(MegatronText::Kind kind, std::string text, std::string name) {
  return text_of(kind, std::move(text), std::move(name), {});
}

MegatronText megatron_text(const std::string& source) {
  using Kind = MegatronText::Kind;
  ScriptStart start;
  const auto [kind, path] = named_file(source, start);
  if (kind == Kind::kArguments) {
    MegatronText out = megatron_text(kind, source, "the arguments");
    require<UsageError>(
        std::ranges::any_of(out.words, [](const auto& word) { return word.starts_with("--"); }),
        "--from-megatron {}: no argument in it: expected arguments such as '--num-layers 24', a "
        "shell script (.sh) or a YAML file of Megatron's tests",
        source);
    return out;
  }
  std::error_code error;
  require<UsageError>(fs::is_regular_file(path, error), "--from-megatron {}: there is no such file", path);
  const std::string text = read_text(path);
  if (kind != Kind::kScript) return text_of(kind, text, path, start);
  MegatronText out = text_of(kind, without_carriage_returns(text), path, start);
  if (text.find("\r\n") != std::string::npos)
    out.notes.push_back(fmt::format(
        "{} has the line ends of Windows, with which no shell runs it: it is read without them", path));
  return out;
}

MegatronArguments read_megatron(const std::string& source, const MegatronOptions& options) {
  return read_megatron(megatron_text(source), options);
}

MegatronArguments read_megatron(const MegatronText& text, const MegatronOptions& options) {
  MegatronCommand command = read_megatron_command(text.words);
  if (!command.devices && text.devices) {
    command.devices = text.devices;
    command.nodes = text.nodes;
  }
  MegatronArguments out = MegatronReading(std::move(command), options).read();
  out.notes.insert(out.notes.begin(), text.notes.begin(), text.notes.end());
  return out;
}

}  // namespace stoa::foreign
