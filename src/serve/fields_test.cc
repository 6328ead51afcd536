#include "serve/fields.h"

#include <gmock/gmock.h>

#include <array>
#include <limits>

#include "base/file.h"
#include "base/test_paths.h"
#include "serve/error.h"
#include "serve/openapi.h"
#include "serve/request_body.h"

namespace stoa::serve {
namespace {

const char* word_of(FieldUse use) {
  return use == FieldUse::kHonoured ? "honoured" : use == FieldUse::kIgnored ? "ignored" : "refused";
}

// docs/serving.md says of every field what becomes of it, and of no other.
TEST(Fields, AreThoseOfThePage) {
  const std::string page = read_text(test::source_dir() / "docs/serving.md");
  std::string expected;
  for (const Endpoint& endpoint : endpoints()) {
    expected += fmt::format("\n### `{}`\n\n| field | | |\n|---|---|---|\n", endpoint.path);
    for (const Field& field : endpoint.fields) {
      std::string note(field.note);
      if (!field.neutral.empty())
        note += fmt::format("{}`{}` is taken", note.empty() ? "" : "; ", field.neutral);
      expected += fmt::format("| `{}` | {} | {} |\n", field.name, word_of(field.use), note);
    }
  }
  EXPECT_EQ(page.substr(page.find("\n### `")), expected);
}

TEST(Fields, NamesAreUniqueAndNeutralValuesAreJson) {
  for (const Endpoint& endpoint : endpoints()) {
    std::vector<std::string_view> names;
    for (const Field& field : endpoint.fields) {
      EXPECT_THAT(names, ::testing::Not(::testing::Contains(field.name)));
      names.push_back(field.name);
      if (field.neutral.empty()) continue;
      EXPECT_EQ(field.use, FieldUse::kRefused) << field.name;
      const std::string body = fmt::format("{{\"{}\":{}}}", field.name, field.neutral);
      EXPECT_NO_THROW(RequestBody(body, endpoint.fields, false)) << body;
    }
  }
}

TEST(RequestBody, ARefusalSaysWhatIsTaken) {
  constexpr std::array kBestOf{Field{"best_of", FieldUse::kRefused, "", "1"}};
  try {
    RequestBody(R"({"best_of": 2})", kBestOf, false);
    FAIL() << "accepted";
  } catch (const ApiError& error) {
    EXPECT_STREQ(error.what(), "'best_of' is not supported; only 1 is taken");
  }
}

TEST(RequestBody, WholeNumbersAreBoundedExactly) {
  constexpr std::array kSeed{Field{"seed"}};
  const auto seed = [&](const char* text) {
    return RequestBody(fmt::format("{{\"seed\": {}}}", text), kSeed, false)
        .integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
  };
  EXPECT_EQ(seed("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(seed("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(seed("5.0"), 5);
  for (const char* beyond : {"9223372036854775808", "18446744073709551615", "9223372036854775808.0", "-1e19"})
    EXPECT_THROW(seed(beyond), ApiError) << beyond;
}

// Each field has a schema that takes what leaves it out, and no schema is of a field that no endpoint has.
TEST(OpenApi, DescribesEveryField) {
  std::vector<DescribedRoute> routes;
  for (const Endpoint& endpoint : endpoints()) routes.push_back({std::string(endpoint.path), "POST"});
  const Json document = openapi("1", routes, true);
  for (const Endpoint& endpoint : endpoints()) {
    const Json& operation = document["paths"][std::string(endpoint.path)]["post"];
    const Json& schema = operation["requestBody"]["content"]["application/json"]["schema"];
    EXPECT_EQ(schema["properties"].size(), endpoint.fields.size()) << endpoint.path;
    EXPECT_EQ(schema["additionalProperties"], false);
    EXPECT_EQ(operation["security"].size(), 1u);
    for (const Json& name : schema.value("required", Json::array()))
      EXPECT_TRUE(schema["properties"].contains(name.get<std::string>())) << name;
  }
}

}  // namespace
}  // namespace stoa::serve
