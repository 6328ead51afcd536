// How a command line of Megatron-LM becomes settings of Stoa: what is more than a key for a name.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foreign/megatron/command_line.h"
#include "foreign/megatron_arguments.h"

namespace stoa::foreign {

class MegatronReading {
 public:
  MegatronReading(MegatronCommand command, const MegatronOptions& options);
  MegatronArguments read();

 private:
  enum class Kind { kGpt, kBert, kT5 };

  // What the command says. Taking an argument marks it as honoured.
  const GivenArgument* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  bool take(std::string_view name);
  std::optional<std::string> value(std::string_view name);  // the first value
  std::optional<std::int64_t> whole(std::string_view name);
  std::optional<double> real(std::string_view name);
  std::int64_t whole_of(const GivenArgument& a) const;

  // What becomes of it.
  void set(std::string_view key, std::string value);
  void set_default(std::string_view key, std::string value);  // Megatron's, noted
  bool is_set(std::string_view key) const { return values_.contains(std::string(key)); }
  std::int64_t number(std::string_view key, std::int64_t otherwise) const;
  void refuse(std::string_view name, std::string_view reason);
  // Other numbers in training, but the same memory and time: a plan says so, a run is refused.
  void trains_differently(std::string_view name, std::string_view reason);
  // Trained by Megatron-LM and not by Stoa: plans estimate it, a run is refused.
  void only_estimated(std::string_view name, std::string_view reason);
  // Whether the user's key=value set `key`, one above or below it.
  bool changed(std::string_view key) const;
  void note(std::string text) { out_.notes.push_back(std::move(text)); }

  void leave_out();
  void open_values();
  bool with_experts() const;
  void take_rows();
  void report_rest();
  void finish();

  // read_model.cc
  void program();
  void kind();
  void layers();
  void shape();
  void positions();
  void rope_scaling();
  void attention();
  void window();
  void latent_attention();
  void linear_attention();
  void activation();
  void state_space();
  void further_tokens();
  void experts();
  void balancing();
  void vocabulary();
  bool tokenizer_files();
  bool counted_vocabulary();
  // read_layout.cc
  void pipeline();
  void stages_layout(const std::string& layout);
  void uneven_stages();
  void sharding();
  void context();
  void recomputation();
  void recomputed_modules();
  void retired_recomputation();
  void offloading();
  void precision();
  void eight_bits();
  // read_training.cc
  void batch();
  void optimizer();
  void state_types();
  void schedule();
  void data();
  std::int64_t steps_of(std::int64_t samples) const;
  std::int64_t model_parallel() const;
  // read_run.cc
  void run();
  void run_tokenizer();
  void run_data();
  std::string blend(std::string_view name);
  void run_directory();
  void run_start();
  void run_end();
  bool only_looked_at() const {
    return options_.purpose == Purpose::kPlan || options_.purpose == Purpose::kShow;
  }
  bool of_run() const { return options_.purpose == Purpose::kTrain || options_.purpose == Purpose::kShow; }
  // What stands between the command and a run, with the key=value that helps.
  void needs(std::string problem) { needs_.push_back(std::move(problem)); }
  bool open(std::string_view name);

  // As value(), without Python's and YAML's words for nothing.
  std::optional<std::string> value_unless_none(std::string_view name);
  std::vector<std::int64_t> layer_list(std::string_view name, const std::string& text) const;

  MegatronCommand command_;
  const MegatronOptions& options_;
  MegatronArguments out_;
  Kind kind_ = Kind::kGpt;
  std::map<std::string, std::string> values_;
  std::vector<std::string> order_;  // of values_, as set
  std::set<std::string, std::less<>> taken_;
  std::vector<std::string> refused_, unknown_, missing_, needs_, defaults_;
  std::vector<std::string> refused_names_;
};

// "model.mamba_head_dim" of "mamba-head-dim".
std::string model_key(std::string_view argument);

// "[0]*3+[1]*58", "([1]*2+[0])*4": a list as Megatron evaluates it. UsageError: something else.
std::vector<std::int64_t> megatron_list(std::string_view name, std::string_view text);

}  // namespace stoa::foreign
