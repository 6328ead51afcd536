// Typed access to the keys of a JSON object that records which keys were used.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace stoa::model::huggingface {

class JsonKeys {
 public:
  // `where`: prefix of keys in messages ("rope_scaling."); `file`: the file named in messages.
  JsonKeys(const nlohmann::json& object, std::string where, std::string file = "config.json")
      : object_(&object), where_(std::move(where)), file_(std::move(file)) {}

  bool contains(std::string_view key) const { return object_->contains(std::string(key)); }
  // Present and not null.
  bool has(std::string_view key) const;
  // The value, or none if absent or null. ConfigError: wrong type, or out of bounds.
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t least = 0,
                                      std::int64_t most = std::int64_t{1} << 40);
  std::optional<double> number(std::string_view key);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  std::optional<std::vector<double>> numbers(std::string_view key);
  std::optional<std::vector<std::string>> texts(std::string_view key);
  const nlohmann::json* object(std::string_view key);
  const nlohmann::json* array(std::string_view key);
  // One id or a list of ids.
  std::vector<std::int64_t> integers(std::string_view key);

  void ignore(std::string_view key) { used_.insert(std::string(key)); }
  // ConfigError: the key is set, and not to `supported`, the only value that is.
  void only(std::string_view key, bool supported);
  // ConfigError names the first key that was never requested although it has a value other than null, false,
  // 0 or empty.
  void finish(std::string_view owner) const;

 private:
  const nlohmann::json* find(std::string_view key);
  [[noreturn]] void wrong(std::string_view key, std::string_view expected) const;

  const nlohmann::json* object_;
  std::string where_, file_;
  std::set<std::string, std::less<>> used_;
};

// Ignores the keys of transformers' configurations that do not affect what a causal language model computes.
void ignore_common_keys(JsonKeys& keys);

}  // namespace stoa::model::huggingface
