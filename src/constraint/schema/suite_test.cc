// The JSON Schema organisation's own tests, from a folder that STOA_JSON_SCHEMA_SUITE names
// (tests/slow/json_schema_suite.sh): what a schema's grammar accepts is valid, whatever the schema.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "base/file.h"
#include "constraint/test_support.h"

namespace stoa::constraint {
namespace {

using Json = nlohmann::ordered_json;

// Integers as the grammars write them: 1.0 as 1.
Json normalised(const Json& value) {
  if (value.is_number_float()) {
    const auto x = value.get<double>();
    if (x == std::floor(x) && std::abs(x) < 1e15) return static_cast<std::int64_t>(x);
  }
  Json out = value;
  if (value.is_structured())
    for (auto& part : out) part = normalised(part);
  return out;
}

// The value in all orders of its members, as far as they are few.
std::vector<std::string> spellings(const Json& value) {
  if (value.is_array() || value.is_object()) {
    std::vector<std::vector<std::string>> parts;
    for (const auto& [key, part] : value.items()) {
      parts.push_back(spellings(part));
      if (value.is_object())
        for (std::string& text : parts.back()) text = Json(key).dump() + ":" + text;
    }
    std::vector<std::size_t> order(parts.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::vector<std::string> out;
    do {
      std::vector<std::string> texts{value.is_array() ? "[" : "{"};
      for (std::size_t i = 0; i < order.size(); ++i) {
        std::vector<std::string> longer;
        for (const std::string& text : texts)
          for (const std::string& part : parts[order[i]])
            if (longer.size() < 2000) longer.push_back(text + (i > 0 ? "," : "") + part);
        texts = std::move(longer);
      }
      for (const std::string& text : texts) out.push_back(text + (value.is_array() ? "]" : "}"));
    } while (value.is_object() && out.size() < 2000 && std::next_permutation(order.begin(), order.end()));
    return out;
  }
  return {value.dump()};
}

struct Counts {
  int schemas = 0, compiled = 0, refused = 0, valid = 0, valid_accepted = 0, invalid = 0,
      invalid_accepted = 0;
};

TEST(JsonSchemaSuite, WhatIsAcceptedIsValid) {
  const char* folder = std::getenv("STOA_JSON_SCHEMA_SUITE");
  if (folder == nullptr) GTEST_SKIP() << "STOA_JSON_SCHEMA_SUITE names no folder";
  for (const auto& [draft, dialect] :
       std::map<std::string, std::string>{{"draft4", "http://json-schema.org/draft-04/schema#"},
                                          {"draft7", "http://json-schema.org/draft-07/schema#"},
                                          {"draft2020-12", "https://json-schema.org/draft/2020-12/schema"}}) {
    Counts all;
    std::map<std::string, int> refusals;
    std::vector<std::string> stricter;
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(fs::path(folder) / draft))
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files)
      for (const Json& group : Json::parse(read_text(file))) {
        Json schema = group["schema"];
        if (schema.is_object() && !schema.contains("$schema")) schema["$schema"] = dialect;
        ++all.schemas;
        const std::string name = file.filename().string() + ": " + group["description"].get<std::string>();
        std::optional<Machine> machine;
        try {
          machine.emplace(machine_of(Source{.kind = Source::Kind::kSchema,
                                            .text = schema.dump(),
                                            .choices = {},
                                            .schema = {.open_objects = true}}));
        } catch (const ConstraintError& error) {
          if (std::string_view(error.what()) != "the constraint allows no text at all") {
            ++all.refused;
            const std::string why = error.what();
            ++refusals[why.substr(0, why.find(": ") == std::string::npos ? 40 : why.find(": ") + 50)];
            if (std::getenv("STOA_JSON_SCHEMA_SHOW") != nullptr)
              std::printf("refused %s: %s\n", name.c_str(), why.c_str());
            continue;
          }
        }
        ++all.compiled;
        for (const Json& test : group["tests"]) {
          const std::vector<std::string> texts = spellings(normalised(test["data"]));
          const bool accepted =
              machine && std::any_of(texts.begin(), texts.end(),
                                     [&](const std::string& text) { return accepts(*machine, text); });
          if (test["valid"].get<bool>()) {
            ++all.valid;
            all.valid_accepted += accepted ? 1 : 0;
            if (!accepted) stricter.push_back(name + ": " + test["description"].get<std::string>());
          } else {
            ++all.invalid;
            all.invalid_accepted += accepted ? 1 : 0;
            EXPECT_FALSE(accepted) << draft << ", " << name << ": " << test["description"] << "\n"
                                   << schema.dump() << "\n"
                                   << test["data"].dump();
          }
        }
      }
    std::printf(
        "%s: %d schemas, %d compiled, %d refused; %d of %d valid instances accepted, %d of %d invalid\n",
        draft.c_str(), all.schemas, all.compiled, all.refused, all.valid_accepted, all.valid,
        all.invalid_accepted, all.invalid);
    if (std::getenv("STOA_JSON_SCHEMA_SHOW") != nullptr)
      for (const std::string& name : stricter) std::printf("stricter: %s\n", name.c_str());
    EXPECT_GT(all.compiled, 100);
    EXPECT_GT(all.valid_accepted, all.valid * 9 / 10);
  }
}

}  // namespace
}  // namespace stoa::constraint
