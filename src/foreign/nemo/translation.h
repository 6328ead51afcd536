// What NeMo's keys under `model` mean in Stoa's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/node.h"
#include "foreign/nemo/nemo_file.h"

namespace stoa::foreign {

class NemoTranslation {
 public:
  // `root`: references expanded, overrides (of a layer above 0) merged; a key that an override gave is never
  // replaced.
  NemoTranslation(config::Node& root, Purpose purpose) : root_(root), purpose_(purpose) {}

  // `opened_tokenizer`: the text of model.tokenizer.model in the file, where it was left open.
  void run();
  std::string opened_tokenizer;
  std::vector<std::string> notes, problems;

 private:
  void encoder_decoder();
  void stacks();
  void bert();
  void shape();
  void falcon_and_gemma();
  void attention();
  void experts();
  void eight_bits();
  void recomputation();
  void layout();
  void batch_and_length();
  void lengths();
  void data();
  void tokenizer();

  const config::Node* find(std::string_view path) const;  // nullptr where null or not given
  std::string text(std::string_view path) const;          // of a scalar, lower case; "" where not given
  bool is_true(std::string_view path) const;
  std::int64_t number(std::string_view path, std::int64_t otherwise) const;
  void erase(std::string_view path);
  // At the place of `source`, for messages.
  void put(std::string_view path, std::string value, std::string_view source);
  void replace(std::string_view path, std::string value);  // one form of a value by another
  void move(std::string_view from, std::string_view to);
  void problem(std::string_view path, std::string_view reason);

  config::Node& root_;
  const Purpose purpose_;
};

// Vocabulary sizes of tokenizers that NeMo's files name, or nullopt.
std::optional<std::int64_t> known_vocabulary(std::string_view tokenizer);

}  // namespace stoa::foreign
