#include "constraint/schema/schema_grammar.h"

#include "constraint/schema/formats.h"
#include "constraint/test_support.h"

namespace stoa::constraint {
namespace {

Source schema(std::string text, bool open = false) {
  return {.kind = Source::Kind::kSchema,
          .text = std::move(text),
          .choices = {},
          .schema = {.open_objects = open}};
}

struct Expected {
  std::string schema;
  std::vector<std::string> fit, do_not;
};

void check(const Expected& e, bool open = false) {
  ASSERT_EQ(refusal(schema(e.schema, open)), "") << e.schema;
  Machine machine = machine_of(schema(e.schema, open));
  for (const std::string& text : e.fit) EXPECT_TRUE(accepts(machine, text)) << e.schema << "\n" << text;
  for (const std::string& text : e.do_not) EXPECT_FALSE(accepts(machine, text)) << e.schema << "\n" << text;
}

// What the schema of a Pydantic class looks like.
TEST(SchemaGrammar, ClassesOfClients) {
  check({R"({"$defs":{"Kind":{"enum":["cat","dog"],"title":"Kind","type":"string"},
                      "Pet":{"properties":{"name":{"title":"Name","type":"string"},"kind":{"$ref":"#/$defs/Kind"},
                             "weight":{"anyOf":[{"type":"number"},{"type":"null"}],"default":null}},
                             "required":["name","kind"],"title":"Pet","type":"object"}},
             "additionalProperties":false,
             "properties":{"owner":{"type":"string","maxLength":5},"pets":{"items":{"$ref":"#/$defs/Pet"},"type":"array"}},
             "required":["owner","pets"],"title":"Household","type":"object"})",
         {R"({"owner":"Ann","pets":[]})", R"({"owner": "Ann", "pets": [{"name": "Tom", "kind": "cat"}]})",
          "{\n  \"owner\": \"A\",\n  \"pets\": [\n    {\n      \"name\": \"\\u00e9\",\n      \"kind\": "
          "\"dog\",\n      \"weight\": 4.5\n    }\n  ]\n}",
          R"({"owner":"\ud83d\ude00ab","pets":[{"name":"","kind":"dog","weight":null}]})"},
         {R"({"owner":"Ann"})", R"({"owner":"Anna B","pets":[]})", R"({"pets":[],"owner":"Ann"})",
          R"({"owner":"Ann","pets":[{"name":"Tom","kind":"cow"}]})", R"({"owner":"Ann","pets":[],"x":1})",
          R"({"owner":"\ud83d","pets":[]})", R"({"owner":"Ann","pets":[]} )",
          R"({"owner":"Ann",  "pets":[]})"}});
}

TEST(SchemaGrammar, OpenAndClosedObjects) {
  const std::string text = R"({"type":"object","properties":{"ab":{"type":"integer"}}})";
  check({text, {"{}", "{\"ab\":1}"}, {"{\"ac\":1}", "{\"ab\":\"\"}"}});
  check({text,
         {"{}", "{\"ab\":1,\"ac\":[],\"a\":2,\"\":{}}"},
         {"{\"ab\":\"\"}", "{\"x\":1,\"ab\":1}", "{\"ab\":1,\"ab\":2}"}},
        true);
  check({R"({"type":"object"})", {"{\"a\": 1, \"b\": [{}]}", "{}"}, {"[]"}});
  check({R"({"type":"object","properties":{"a":{}},"additionalProperties":{"type":"null"}})",
         {"{\"a\":1,\"b\":null}", "{\"b\":null}"},
         {"{\"b\":1}"}});
  check(
      {R"({"type":"object","patternProperties":{"^n_":{"type":"number"},"_s$":{"type":["string","number"]}},"additionalProperties":false})",
       {"{\"n_x\":1,\"a_s\":\"\"}", "{\"n_s\":2}"},
       {"{\"n_s\":\"\"}", "{\"other\":1}"}});
  check({R"({"type":"object","propertyNames":{"pattern":"^[a-c]+$"},"maxProperties":2,"minProperties":1})",
         {"{\"a\":1}", "{\"a\":1,\"cab\":2}"},
         {"{}", "{\"d\":1}", "{\"a\":1,\"b\":2,\"c\":3}"}});
}

TEST(SchemaGrammar, RecursionAndCombinations) {
  check(
      {R"({"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/tree"},{"type":"null"}]}},"required":["v","next"]}}})",
       {R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
       {R"({"v":1,"next":{"v":2}})", R"({"v":1})"}});
  check(
      {R"({"oneOf":[{"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"number"}},"required":["kind","r"]},
                      {"type":"object","properties":{"kind":{"const":"square"},"a":{"type":"number"}},"required":["kind","a"]}]})",
       {R"({"kind":"circle","r":1})", R"({"kind":"square","a":2.5})"},
       {R"({"kind":"circle","a":1})", R"({"kind":"square"})"}});
  check({R"({"oneOf":[{"type":"integer","maximum":10},{"type":"integer","minimum":5}]})",
         {"3", "11", "-7"},
         {"7", "5", "10"}});
  check({R"({"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"integer"}},"required":["a"],
             "if":{"properties":{"a":{"const":true}}},"then":{"required":["b"]},"else":{"properties":{"b":false}}})",
         {R"({"a":true,"b":1})", R"({"a":false})"},
         {R"({"a":true})", R"({"a":false,"b":1})"}});
  check({R"({"allOf":[{"type":"string","minLength":2},{"pattern":"^[ab]*$"},{"not":{"enum":["aa","bb"]}}]})",
         {"\"ab\"", "\"aaa\""},
         {"\"a\"", "\"aa\"", "\"ac\""}});
  check({R"({"enum":["a\"b",1,2.5,null,[1,"x"],{"k":true}]})",
         {R"("a\"b")", "1", "2.5", "null", R"([1,"x"])", R"({"k":true})"},
         {"2", "[1]", R"({"k":false})", "2.50"}});
  check(
      {R"({"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"integer"},"minItems":2,"maxItems":3})",
       {R"(["a",1])", R"(["a", 1, 2])"},
       {R"(["a"])", R"([1,1])", R"(["a",1,2,3])"}});
  check({R"({"type":"array","items":{"type":"integer"},"contains":{"minimum":10},"maxItems":3})",
         {"[10]", "[1,12,2]"},
         {"[]", "[1,2]", "[1,2,3,10]"}});
  check({R"({"type":"array","items":{"type":"integer"},"minItems":3,"maxItems":500})",
         {"[1,2,3]", "[1,2,3,4]"},
         {"[1,2]"}});
}

TEST(SchemaGrammar, Formats) {
  const std::vector<std::tuple<std::string, std::vector<std::string>, std::vector<std::string>>> formats{
      {"date",
       {"2024-02-29", "2023-12-31", "2000-02-29"},
       {"2023-02-29", "1900-02-29", "2023-4-01", "2023-04-31"}},
      {"time", {"23:59:59Z", "00:00:00.25+02:00"}, {"24:00:00Z", "12:00Z", "12:00:00"}},
      {"date-time", {"2024-02-29T12:00:00Z"}, {"2024-02-29 12:00:00Z", "2024-02-30T12:00:00Z"}},
      {"duration", {"P3Y6M4DT12H30M5S", "PT1M", "P2W"}, {"P", "PT", "P1S", "P1Y2W"}},
      {"email", {"a.b+c@example.org"}, {"a@", "@b", "a..b@c.de", "a b@c.de"}},
      {"hostname", {"example.org", "a-b.c"}, {"-a", "a-", "a..b", ""}},
      {"ipv4", {"0.0.0.0", "255.1.20.3"}, {"256.1.1.1", "01.1.1.1", "1.1.1"}},
      {"ipv6",
       {"::", "::1", "1:2:3:4:5:6:7:8", "fe80::1:2", "::ffff:1.2.3.4", "1::8"},
       {"1:2:3", ":::", "1::2::3", "g::", "12345::"}},
      {"uuid",
       {"123e4567-e89b-12d3-a456-426614174000"},
       {"123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400g"}},
      {"uri", {"https://a.b:80/c/d?e=f#g", "mailto:a@b.c", "urn:x:y"}, {"//a.b", "a b:c", "https://a b"}},
      {"json-pointer", {"", "/a/b~0c"}, {"a", "/~2"}},
      {"byte", {"", "QUJD", "QQ=="}, {"QQ=", "Q", "QUJD="}}};
  for (const auto& [format, good, bad] : formats) {
    Budget budget;
    const auto texts = texts_of_format(format, budget);
    for (const std::string& text : good) EXPECT_TRUE(texts->matches(text)) << format << " " << text;
    for (const std::string& text : bad) EXPECT_FALSE(texts->matches(text)) << format << " " << text;
  }
  check({R"({"type":"integer","format":"int32"})", {"-2147483648", "2147483647"}, {"2147483648", "1.5"}});
  check({R"({"type":"string","format":"password"})", {"\"x\""}, {}});
}

TEST(SchemaGrammar, WhatCannotBeHonouredIsNamedWithItsPlace) {
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {R"({"properties":{"a":{"uniqueItems":true}}})",
            "at '/properties/a': 'uniqueItems' is not supported"},
           {R"({"type":"objekt"})", "'type' must be one of"},
           {R"({"requird":["a"]})", "the keyword 'requird' is not supported (did you mean 'required'?)"},
           {R"({"$ref":"#/$defs/a"})", "'#/$defs/a', which does not exist"},
           {R"({"$ref":"other.json"})", "another document"},
           {R"({"$ref":"#"})", "leads back to the same place"},
           {"{\"items\":{\"pattern\":\"(?=a)\"}}", "at '/items': the pattern '(?=a)'"},
           {R"({"format":"phone"})", "'format': 'phone' is not supported"},
           {R"({"type":"integer","minimum":"1"})", "'minimum' must be a number"},
           {R"({"minLength":-1})", "'minLength' must be a whole number"},
           {R"({"anyOf":[]})", "'anyOf' must be a list, and not empty"},
           {R"({"items":7})", "must be an object, true or false"},
           {R"({"type":"string","minLength":3,"maxLength":2})", "allows no text"},
           {R"({"type":"object","required":["a"],"properties":{"a":false}})", "allows no text"},
           {R"({"minProperties":3,"type":"object"})", "'minProperties' 3"},
           {R"({"multipleOf":0})", "'multipleOf' must be above 0"},
           {"[]", "must be an object"},
           {"{\"a\"", "not JSON"},
           {std::string(300, '[') + std::string(300, ']'), "200 levels"}}) {
    const std::string why = refusal(schema(text));
    EXPECT_NE(why.find(words), std::string::npos) << text << ": " << why;
  }
  // Alternatives that multiply.
  std::string many = R"({"allOf":[)";
  for (int i = 0; i < 12; ++i)
    many +=
        (i > 0 ? "," : "") +
        fmt::format(R"({{"anyOf":[{{"minimum":{}}},{{"maximum":{}}},{{"multipleOf":{}}}]}})", i, i, i + 1);
  EXPECT_NE(refusal(schema(many + "]}")).find("too complex"), std::string::npos);
}

TEST(SchemaGrammar, LargeSchemasCompileWithinTheirBudget) {
  std::string text = R"({"type":"object","properties":{)";
  for (int i = 0; i < 300; ++i)
    text += (i > 0 ? "," : "") +
            fmt::format(R"("property number {}":{{"type":"string","maxLength":{}}})", i, 1000 + i);
  Machine machine = machine_of(schema(text + "}}"));
  EXPECT_TRUE(accepts(machine, R"({"property number 3":"x","property number 299":"y"})"));
  EXPECT_FALSE(accepts(machine, R"({"property number 299":"y","property number 3":"x"})"));
  EXPECT_TRUE(accepts(machine, "{\"property number 0\":\"" + std::string(1000, 'x') + "\"}"));
  EXPECT_FALSE(accepts(machine, "{\"property number 0\":\"" + std::string(1001, 'x') + "\"}"));
}

}  // namespace
}  // namespace stoa::constraint
