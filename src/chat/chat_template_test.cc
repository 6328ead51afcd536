#include "chat/chat_template.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_paths.h"

namespace stoa::chat {
namespace {

using Json = nlohmann::ordered_json;

std::tm time_of(const Json& now) {  // Python's struct_time
  std::tm t{};
  t.tm_year = now[0].get<int>() - 1900;
  t.tm_mon = now[1].get<int>() - 1;
  t.tm_mday = now[2];
  t.tm_hour = now[3];
  t.tm_min = now[4];
  t.tm_sec = now[5];
  t.tm_wday = (now[6].get<int>() + 1) % 7;
  t.tm_yday = now[7].get<int>() - 1;
  return t;
}

TEST(ChatTemplate, AnotherOneForTools) {
  const ChatTemplate templates("{{ 'plain' }}", "{% generation %}tools{% endgeneration %}");
  RenderOptions options;
  EXPECT_EQ(templates.render(Json::array(), options), "plain");
  options.variables["tools"] = nullptr;
  EXPECT_EQ(templates.render(Json::array(), options), "plain");
  options.variables["tools"] = Json::array({{{"type", "function"}}});
  EXPECT_EQ(templates.render(Json::array(), options), "tools");
  EXPECT_FALSE(templates.marks_generation());
  const ChatTemplate broken("{{ 'plain' }}", "{% nothing %}");
  EXPECT_THROW(broken.render(Json::array(), options), TemplateError);
  EXPECT_EQ(broken.render(Json::array()), "plain");
}

// Made by tests/oracle/make_chat_fixtures.py with transformers.
TEST(ChatTemplate, RendersWhatTransformersRenders) {
  const Json fixture = Json::parse(read_text(test::source_dir() / "tests/fixtures/chat/templates.json"));
  ASSERT_GT(fixture["cases"].size(), 200U);
  for (const auto& c : fixture["cases"]) {
    const auto source = fixture["templates"][c["template"].get<std::size_t>()].get<std::string>();
    RenderOptions options;
    options.add_generation_prompt = c["add_generation_prompt"];
    options.variables = c["variables"];
    options.now = time_of(fixture["now"]);
    std::string text;
    bool refused = false;
    try {
      text = ChatTemplate(source).render(fixture["conversations"][c["messages"].get<std::size_t>()], options);
    } catch (const TemplateError& error) {
      refused = true;
      text = error.what();
    }
    EXPECT_EQ(refused, c.contains("error")) << c["name"] << ": " << text;
    if (!refused && c.contains("text")) {
      EXPECT_EQ(text, c["text"].get<std::string>()) << c["name"];
    }
  }
}

std::string render(std::string_view source) {
  RenderOptions options;
  options.limits.steps = 1'000'000;  // a twentieth of the usual, to be quick
  return ChatTemplate(source).render(Json::array(), options);
}

TEST(ChatTemplate, GenerationBlocksAreFound) {
  const std::string_view source =
      "{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
      "<e>{% endgeneration %}{% else %}{{ m.content }}{% endif %};{% endfor %}";
  const Json messages = {{{"role", "user"}, {"content", "Hi"}},
                         {{"role", "assistant"}, {"content", "Ho"}},
                         {{"role", "assistant"}, {"content", "é"}}};
  const ChatTemplate marked(source), plain("{{ messages[0].content }}");
  EXPECT_TRUE(marked.marks_generation());
  EXPECT_FALSE(plain.marks_generation());
  std::vector<TextSpan> spans;
  const std::string text = marked.render(messages, {}, &spans);
  EXPECT_EQ(text, marked.render(messages));
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(text.substr(spans[0].begin, spans[0].end - spans[0].begin), "Ho<e>");
  EXPECT_EQ(text.substr(spans[1].begin, spans[1].end - spans[1].begin), "é<e>");
  const ChatTemplate captured("{% set x %}{% generation %}a{% endgeneration %}{% endset %}{{ x }}");
  EXPECT_EQ(captured.render(messages), "a");
  EXPECT_THROW((void)captured.render(messages, {}, &spans), TemplateError);
}

TEST(ChatTemplate, ErrorsSayWhereAndWhat) {
  const auto message = [](std::string_view source) {
    try {
      (void)render(source);
    } catch (const TemplateError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message("a\n{% if x %}").find("line 2"), std::string::npos) << message("a\n{% if x %}");
  EXPECT_NE(message("{{ raise_exception('no system role') }}").find("no system role"), std::string::npos);
  EXPECT_NE(message("{{ 'a'|lowr }}").find("lower"), std::string::npos);
  EXPECT_NE(message("{% include 'x' %}").find("include"), std::string::npos);
}

// Each would run, write or recurse without end, or hold gigabytes.
TEST(ChatTemplate, WorkMemoryAndDepthAreBounded) {
  const std::string range = "range(99999)";
  EXPECT_THROW(render("{% for a in " + range + " %}{% for b in " + range + " %}{% endfor %}{% endfor %}"),
               TemplateError);
  EXPECT_THROW(render("{{ 'x' * 999999999999 }}"), TemplateError);
  EXPECT_THROW(render("{{ [0] * 999999999999 }}"), TemplateError);
  EXPECT_THROW(render("{{ '' * 9223372036854775807 }}{{ [] * 9223372036854775807 }}"), TemplateError);
  EXPECT_THROW(
      render(
          "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"),
      TemplateError);
  EXPECT_THROW(render("{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = "
                      "ns.s.replace('x', 'xx') %}{% endfor %}"),
               TemplateError);
  EXPECT_THROW(render("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] "
                      "%}{% endfor %}{{ ns.l|tojson }}"),
               TemplateError);
  EXPECT_THROW(render("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] "
                      "%}{% endfor %}{{ ns.l == ns.l }}"),
               TemplateError);
  EXPECT_THROW(
      render("{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l = [ns.l] %}{% endfor %}"),
      TemplateError);
  EXPECT_THROW(render("{% set ns = namespace() %}{% set ns.me = ns %}"), TemplateError);
  EXPECT_THROW(render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), TemplateError);
  EXPECT_THROW(render("{{ " + std::string(100000, '(') + "1" + std::string(100000, ')') + " }}"),
               TemplateError);
  EXPECT_THROW(render("{{ " + std::string(100000, '-') + "1 }}"), TemplateError);
  std::string chain = "1";
  for (int i = 0; i < 100000; ++i) chain += "+1";
  EXPECT_THROW(render("{{ " + chain + " }}"), TemplateError);
  std::string blocks;
  for (int i = 0; i < 20000; ++i) blocks += "{% if 1 %}";
  EXPECT_THROW(render(blocks), TemplateError);
  EXPECT_THROW(render(std::string(kLongestTemplate + 1, 'x')), TemplateError);
  EXPECT_THROW(render("{{ 9223372036854775807 + 1 }}"), TemplateError);
  EXPECT_THROW(render("{{ (-9223372036854775807 - 1) // -1 }}"), TemplateError);
  EXPECT_EQ(render("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
  Json nested = "x";
  for (int i = 0; i < 1000; ++i) nested = Json::array({nested});
  EXPECT_THROW(ChatTemplate("x").render(nested), TemplateError);
}

}  // namespace
}  // namespace stoa::chat
