// How the text of a shell script becomes the words of a command: its variables, branches and other scripts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "foreign/megatron/shell_script.h"
#include "foreign/megatron/shell_statements.h"

namespace stoa::foreign {

class ShellReading {
 public:
  ShellReading(std::string name, const ScriptStart& start, int& files, int depth = 0);

  // Follows the statements of `text`. What was found so far is command().
  void follow(std::string_view text);
  ScriptCommand& command() { return command_; }
  // The command, or what variables say of one where none runs. UsageError: neither.
  ScriptCommand finish();

 private:
  using Words = std::vector<std::string>;
  struct Block {
    enum Type { kIf, kCase, kSkipped } type;
    bool runs, done;      // this branch; an earlier one, or nobody knows
    std::string subject;  // kCase: what its patterns are compared with
  };

  // Statements: shell_script.cc.
  void slurm_header(std::string_view text);
  void slurm_option(std::string_view option, std::string_view value);
  bool running() const;
  void take(const ShellStatement& s);
  bool assignments(std::string_view text);
  std::size_t array_end(std::string_view text, std::size_t at) const;
  void assign(std::string_view name, std::string_view value);
  void run(std::string_view text, int line);
  void take_variables();
  std::string_view cut(std::string_view text) const;
  std::string where(int line) const;
  // Other scripts: shell_scripts.cc. False: the words start none.
  bool other_script(const Words& words, int line);
  void submit_option(ScriptStart& start, std::string_view option, std::string_view value);
  std::optional<std::string> find_script(const std::string& path) const;
  void source(const std::string& path);
  void start_script(const std::string& path, ScriptStart start, bool alone);
  ScriptStart environment() const;

  // Conditions: shell_conditions.cc. No value where they depend on what the script does not say.
  void branch(std::string_view word, std::string_view condition, int line);
  void decide(Block& block, std::optional<bool> holds);
  void begin_case(std::string_view text, int line);
  bool case_pattern(std::string_view& text);
  std::optional<bool> test(std::string_view text, int line);
  std::optional<bool> any_of(std::string_view text);
  std::optional<bool> simple(Words words);
  std::optional<bool> is_empty(const std::string& word);
  Words expand_test(std::string_view text);

  // Words: shell_words.cc.
  std::optional<std::int64_t> number(const std::string& text);
  std::optional<Words> value_of(const std::string& name, bool all) const;
  Words parameter(std::string_view inside);
  std::string substituted(std::string_view text);
  // Words of `raw` as the shell makes them; with `split` false what is not quoted is not split either.
  Words expand(std::string_view raw, bool split = true);

  std::string name_, file_, directory_;  // the script, the file that is read now, and what pwd says
  std::optional<Words> given_;           // $1, $2, …
  int depth_;                            // scripts that started this one
  std::map<std::string, Words> variables_;
  std::set<std::string, std::less<>> arrays_, exported_, unset_, missing_;
  std::vector<Block> blocks_;
  std::vector<std::string> notes_;
  std::optional<bool> status_;
  bool stopped_ = false, returned_ = false, branching_ = false;
  bool slurm_ = false;      // it has lines for Slurm
  bool undecided_ = false;  // what follows && or || of a test whose result nobody knows is left out
  int& files_;              // other scripts that may still be read
  ScriptCommand command_;
};

}  // namespace stoa::foreign
