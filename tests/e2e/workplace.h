// A temporary directory with a small text, its tokenizer and its tokens, and the commands that tests run
// there.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/test_folder.h"
#include "program.h"

namespace stoa::e2e {

// `words` pseudo-random words in sentences, the same on every machine: something that a model can learn a
// little of.
std::string pseudo_prose(std::uint64_t seed, int words);

class Workplace : public ::testing::Test {
 protected:
  // text.jsonl (120 documents), tok/ (300 tokens), data.bin, data.idx. Of this test alone.
  void SetUp() override;
  void TearDown() override;

  // sentences.jsonl: text.jsonl with sentences that a splitter sees, a capital letter after each full stop.
  void write_sentences() const;

  const fs::path& directory() const { return directory_.path(); }
  fs::path path(const std::string& name) const { return directory_ / name; }

  Outcome stoa(const Arguments& arguments) const;
  Outcome stoa(const Arguments& arguments, ProgramOptions options) const;
  // Runs and expects exit 0.
  Outcome stoa_ok(const Arguments& arguments) const;
  nlohmann::json json_of(const Arguments& arguments) const;

  // Arguments of `stoa train` for a model of 2 layers x 32, sequence 32, 4 samples per step, fp32, on the
  // prepared data; with
  // --output when `run` is given.
  static Arguments train(const std::string& run, const Arguments& more = {});
  // The same configuration without a command, tokenizer and data: for `bench train` and `plan memory`.
  static Arguments micro_model();

  // The lines of metrics.jsonl with a loss, by step; validation lines by step.
  std::map<std::int64_t, nlohmann::json> metrics(const std::string& run) const;
  std::map<std::int64_t, nlohmann::json> validations(const std::string& run) const;
  std::vector<std::string> checkpoints(const std::string& run) const;  // names, sorted, hidden ones too

  // The two runs are equal to the last bit, in curves, weights and state, and something was compared.
  void expect_same(const std::string& a, const std::string& b) const;

 private:
  TestFolder directory_;
};

}  // namespace stoa::e2e
