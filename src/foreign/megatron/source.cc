// What --from-megatron is given: arguments, a shell script, or a YAML file of Megatron's functional tests.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "config/node.h"
#include "config/yaml.h"
#include "foreign/megatron/command_line.h"
#include "foreign/megatron/shell_script.h"
#include "foreign/megatron_arguments.h"

namespace stoa::foreign {
namespace {

// A scalar with the variables of its environment left open.
std::string with_open_variables(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '$' || at + 1 == text.size()) {
      out += text[at++];
      continue;
    }
    const bool braces = text[at + 1] == '{';
    std::size_t end = at + 1 + braces;
    const std::size_t begin = end;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
      ++end;
    out += kOpen;
    out += text.substr(begin, end - begin);
    out += kClose;
    at = braces ? std::min(text.find('}', end), text.size() - 1) + 1 : end;
  }
  return out;
}

void add_scalar(std::vector<std::string>& words, const std::string& name, const std::string& text) {
  const MegatronArgument* row = find_megatron_argument(std::string_view(name).substr(2));
  const bool many = row && (row->arity == Arity::kAny || row->arity == Arity::kSome);
  if (many && !text.starts_with('(')) {  // several values in one scalar: "0.9 1.0", "[mlp moe_act]"
    const bool brackets = text.starts_with('[') && text.ends_with(']');
    const std::string inner = brackets ? text.substr(1, text.size() - 2) : text;
    for (const std::string& word : shell_words(with_open_variables(inner))) words.push_back(word);
    return;
  }
  words.push_back(with_open_variables(text));
}

// MODEL_ARGS: a map of arguments, `true` for those without a value, false for those that are not given.
std::vector<std::string> words_of_yaml(const config::Node& root, const std::string& path) {
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
      for (const config::Node& item : value.items) words.push_back(with_open_variables(item.scalar));
    } else {
      require<UsageError>(value.kind == Kind::kScalar, "--from-megatron {}: {}: expected a value or a list",
                          path, key);
      if (value.scalar != "true") add_scalar(words, name, value.scalar);
    }
  }
  return words;
}

bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view e) { return text.ends_with(e); });
}

}  // namespace

MegatronText megatron_text(MegatronText::Kind kind, std::string text, std::string name) {
  using Kind = MegatronText::Kind;
  MegatronText out{kind, std::move(text), std::move(name), {}, {}};
  if (kind == Kind::kArguments) {
    out.words = shell_words(out.text);
  } else if (kind == Kind::kScript) {
    ScriptCommand command = read_shell_script(out.text, out.name);
    out.words = std::move(command.words);
    out.notes = std::move(command.notes);
  } else {
    std::vector<std::string> repeated;
    out.words = words_of_yaml(config::parse_yaml(out.text, out.name, 0, &repeated), out.name);
    for (const std::string& key : repeated)
      out.notes.push_back(key + " is given twice: the last counts, as in Megatron's tests");
    // test_cases/bert/NAME/model_config.yaml does not name its program.
    for (const auto& [folder, program] : {std::pair{"/bert/", "pretrain_bert.py"},
                                          {"/t5/", "pretrain_t5.py"},
                                          {"test_cases/hybrid/", "pretrain_hybrid.py"},
                                          {"test_cases/mimo/", "examples/mimo/train.py"},
                                          {"test_cases/multimodal-llava/", "pretrain_vlm.py"}})
      if (out.name.find(folder) != std::string::npos) out.words.insert(out.words.begin(), program);
  }
  return out;
}

MegatronText megatron_text(const std::string& source) {
  using Kind = MegatronText::Kind;
  const bool one_word = source.find_first_of(" \t\n") == std::string::npos;
  const bool script = one_word && ends_with_any(source, {".sh", ".bash", ".slurm", ".sbatch"});
  const bool yaml = one_word && ends_with_any(source, {".yaml", ".yml"});
  if (!script && !yaml) return megatron_text(Kind::kArguments, source, "the arguments");
  std::error_code error;
  require<UsageError>(fs::is_regular_file(source, error), "--from-megatron {}: there is no such file",
                      source);
  return megatron_text(yaml ? Kind::kYaml : Kind::kScript, read_text(source), source);
}

MegatronArguments read_megatron(const std::string& source, const MegatronOptions& options) {
  return read_megatron(megatron_text(source), options);
}

MegatronArguments read_megatron(const MegatronText& text, const MegatronOptions& options) {
  MegatronArguments out = read_megatron_words(text.words, options);
  out.notes.insert(out.notes.begin(), text.notes.begin(), text.notes.end());
  return out;
}

}  // namespace stoa::foreign
