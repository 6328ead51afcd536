// How a recipe becomes a command line of Megatron-LM, and what is more than that.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/node.h"
#include "foreign/nemo2/keys.h"
#include "foreign/nemo2/recipe.h"

namespace stoa::foreign {

class Nemo2Reading {
 public:
  Nemo2Reading(config::Node root, std::vector<std::string> changes, Purpose purpose)
      : root_(std::move(root)), changes_(std::move(changes)), purpose_(purpose) {}
  Nemo2Config read();

 private:
  // Walks over the tree.
  void nemo();
  void bridge();
  void complete_class();
  void section(Nemo2Section section, const std::string& path, const config::Node* node);
  void take(Nemo2Section section, const std::string& path, const std::string& name, const config::Node& node);
  void without_meaning(const std::string& path, const config::Node& node, const char* reason);
  void callbacks(const config::Node& list);
  void tokenizer(const std::string& path, const config::Node& node);
  // What several keys say together.
  void model();
  void activation();
  void lengths();
  void gemma();
  void encoders();
  void vocabulary();
  void precision();
  void eight_bits();
  void sharding();
  void schedule();
  void weight_decay();
  void run();
  // files.cc: the files of a run
  void run_keys(const std::string& path, const config::Node& node);
  void files();
  void data_files();
  void tokenizer_files();
  bool tokenizer_is_here() const;  // of a run: the user's, or one that the recipe names
  void run_directory(const config::Node& log);
  void checkpoints(const config::Node& log);
  void start();
  void classes();
  bool of_run() const { return purpose_ == Purpose::kTrain || purpose_ == Purpose::kShow; }
  bool changed(std::string_view key) const;  // by the user
  // What stands between the recipe and a run.
  void needs(const std::string& problem);
  void honoured(const std::string& path);  // by a run: it is not among what has no effect

  // What a key that is read by code says.
  std::optional<std::string> code(Nemo2Section section, std::string_view name) const;
  std::optional<std::int64_t> whole(Nemo2Section section, std::string_view name) const;
  bool is_true(Nemo2Section section, std::string_view name) const;
  // The text of an argument that was given before; "" without.
  std::string argument_text(std::string_view name) const;
  void argument(std::string_view name, std::vector<std::string> values, std::string shown);
  // For the key that `section` and `name` name.
  void argument_of(Nemo2Section section, std::string_view key, std::string_view name,
                   std::vector<std::string> values = {});
  void set(std::string_view key, std::string_view value);
  void note(std::string text) { out_.notes.push_back(std::move(text)); }
  void refuse(const std::string& path, const std::string& value, std::string_view reason);

  struct Given {
    std::string path, text;
  };
  struct Argument {
    std::vector<std::string> values;
    std::string shown;
  };

  config::Node root_;
  std::vector<std::string> changes_;
  const Purpose purpose_;
  Nemo2Config out_;
  std::string class_;
  std::string script_ = "pretrain_gpt.py";
  std::map<std::pair<Nemo2Section, std::string>, Given, std::less<>> code_;
  std::map<std::string, Argument, std::less<>> arguments_;
  std::vector<std::string> problems_, refused_;
};

// Why keys of logs, checkpoints and resuming are of no effect in a plan.
inline constexpr const char* kOfARun = "of a run: files, logs and checkpoints are Stoa's own";

// "nemo.collections.llm.Llama3Config8B" -> "Llama3Config8B"
std::string last_name(const std::string& dotted);
// A value as an argument has it; nothing: null. A function or type of Python is its last name.
std::optional<std::string> recipe_text(const config::Node& node);

}  // namespace stoa::foreign
