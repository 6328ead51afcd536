#include "tune/sample_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/test_paths.h"
#include "tune/named_templates.h"
#include "tune/record_file.h"
#include "tune/token_offsets.h"

namespace stoa::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Place kPlace{"chats.jsonl", 1};

token::Tokenizer fixture(const std::string& name) {
  return token::Tokenizer::load(test::source_dir() / "tests/fixtures/token" / name);
}

token::Tokenizer templated(const std::string& tokenizer, const std::string& choice) {
  return with_template(fixture(tokenizer), choice).tokenizer;
}

// A tokenizer with this Jinja text as its template.
token::Tokenizer with_jinja(const token::Tokenizer& tokenizer, std::string jinja) {
  token::TokenizerSpec spec = tokenizer.spec();
  spec.chat_template = std::move(jinja);
  return token::Tokenizer(std::move(spec));
}

struct Encoded {
  std::vector<EncodedSample> samples;
  EncodingCounts counts;
  std::set<token::TokenId> ends;
};

Encoded encode(const token::Tokenizer& tokenizer, std::string_view json, std::int64_t longest = 1000) {
  const ChatText text = chat_text(tokenizer);
  SampleEncoder encoder(tokenizer, text, longest);
  const Json object = parse_json(json, kPlace);
  Encoded out;
  encoder.encode(read_record(object, form_of(object, kPlace), kPlace, {text.chat_template.has_value()}), 0,
                 out.samples);
  out.counts = encoder.counts();
  out.ends = encoder.turn_ends();
  return out;
}

// The text with what is trained in brackets.
std::string marked(const token::Tokenizer& tokenizer, const EncodedText& text) {
  std::string out;
  for (std::size_t i = 0; i < text.tokens.size();) {
    std::vector<token::TokenId> run;
    const std::uint8_t trained = text.trained[i];
    for (; i < text.tokens.size() && text.trained[i] == trained; ++i) run.push_back(text.tokens[i]);
    out += (trained ? "[" : "") + tokenizer.decode(run) + (trained ? "]" : "");
  }
  return out;
}

constexpr std::string_view kChat =
    R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi there"},
        {"role":"assistant","content":"Hello, wanderer"},{"role":"user","content":"Bye é"},
        {"role":"assistant","content":"So long"}]})";

TEST(SampleEncoder, AnswersAndTheirEndAreTrained) {
  const token::Tokenizer chatml = templated("gpt2", "chatml");
  const Encoded encoded = encode(chatml, kChat);
  ASSERT_EQ(encoded.samples.size(), 1U);
  EXPECT_EQ(marked(chatml, encoded.samples[0].text),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi there<|im_end|>\n"
            "<|im_start|>assistant\n[Hello, wanderer<|im_end|>]\n<|im_start|>user\nBye é<|im_end|>\n"
            "<|im_start|>assistant\n[So long<|im_end|>]\n");
  EXPECT_THAT(encoded.ends, ElementsAre(*chatml.token_to_id("<|im_end|>")));
  const token::Tokenizer llama = templated("llama3", "llama3");
  EXPECT_THAT(marked(llama, encode(llama, kChat).samples[0].text),
              HasSubstr("<|start_header_id|>assistant<|end_header_id|>\n\n[So long<|eot_id|>]"));
}

TEST(SampleEncoder, EveryNamedTemplateTrainsTheAnswers) {
  for (const NamedTemplate& named : named_templates())
    for (const char* tokenizer_name : {"gpt2", "qwen2", "llama2", "llama-spm"}) {
      SCOPED_TRACE(std::string(named.name) + " " + tokenizer_name);
      token::TokenizerSpec spec = fixture(tokenizer_name).spec();
      if (spec.eos.empty()) spec.eos = token::Tokenizer(spec).token_to_id("</s>") ? "</s>" : "<|endoftext|>";
      const token::Tokenizer base(std::move(spec));
      if (base.spec().form == token::SymbolForm::kModel && !named.tokens.empty()) {
        EXPECT_THROW(with_template(base, std::string(named.name)), DataError);
        continue;
      }
      const token::Tokenizer tokenizer = with_template(base, std::string(named.name)).tokenizer;
      const Encoded encoded = encode(
          tokenizer, R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho ho"},
                         {"role":"user","content":"Bye"},{"role":"assistant","content":"So long"}]})");
      ASSERT_EQ(encoded.samples.size(), 1U);
      const EncodedText& text = encoded.samples[0].text;
      const std::string_view end = named.end.empty() ? std::string_view(tokenizer.spec().eos) : named.end;
      std::vector<std::string> answers;
      for (std::size_t i = 0; i < text.tokens.size();) {
        std::vector<token::TokenId> run;
        for (; i < text.tokens.size() && text.trained[i]; ++i) run.push_back(text.tokens[i]);
        if (run.empty()) {
          ++i;
          continue;
        }
        EXPECT_EQ(run.back(), tokenizer.token_to_id(end));
        run.pop_back();
        std::string answer = tokenizer.decode(run);
        answer.erase(0, answer.find_first_not_of(' '));
        answers.push_back(std::move(answer));
      }
      EXPECT_THAT(answers, ElementsAre("Ho ho", "So long"));
    }
}

TEST(SampleEncoder, GenerationBlocksGiveTheSameMaskAsPrefixes) {
  const token::Tokenizer prefixes = templated("gpt2", "chatml");
  const token::Tokenizer blocks = with_jinja(
      prefixes,
      "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
      "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}"
      "{% endgeneration %}{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
  const Encoded a = encode(prefixes, kChat), b = encode(blocks, kChat);
  EXPECT_EQ(a.samples[0].text.tokens, b.samples[0].text.tokens);
  EXPECT_EQ(a.samples[0].text.trained, b.samples[0].text.trained);
  // The end of the turn is trained also where the block leaves it out.
  const token::Tokenizer without_end = with_jinja(
      prefixes,
      "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
      "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}"
      "{% endgeneration %}{% else %}{{ message['content'] }}{% endif %}{{ '<|im_end|>\\n' }}{% endfor %}");
  EXPECT_EQ(encode(without_end, kChat).samples[0].text.trained, a.samples[0].text.trained);
}

TEST(SampleEncoder, WeightsAndWhatFollowsTheLastAnswer) {
  const token::Tokenizer tokenizer = templated("gpt2", "chatml");
  const Encoded encoded = encode(
      tokenizer, R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","weight":0},
                     {"role":"user","content":"c"},{"role":"assistant","content":"d"},
                     {"role":"user","content":"e"}]})");
  EXPECT_EQ(
      marked(tokenizer, encoded.samples[0].text),
      "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
      "<|im_start|>assistant\n[d<|im_end|>]\n");
  const Encoded none =
      encode(tokenizer,
             R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","weight":0}]})");
  EXPECT_TRUE(none.samples.empty());
  EXPECT_EQ(none.counts.untrained, 1);
}

// As reasoning models' templates do: thoughts of earlier answers are dropped.
TEST(SampleEncoder, ATemplateThatRewritesEarlierTurnsGivesASamplePerAnswer) {
  const token::Tokenizer tokenizer =
      with_jinja(templated("gpt2", "chatml"),
                 "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
                 "{% if message['role'] == 'assistant' and not loop.last %}{{ "
                 "message['content'].split('</think>')[-1] }}"
                 "{% else %}{{ message['content'] }}{% endif %}{{ '<|im_end|>\\n' }}{% endfor %}"
                 "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
  const Encoded encoded =
      encode(tokenizer,
             R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"<think>x</think>b"},
                     {"role":"user","content":"c"},{"role":"assistant","content":"<think>y</think>d"}]})");
  ASSERT_EQ(encoded.samples.size(), 2U);
  EXPECT_EQ(encoded.counts.rewritten, 1);
  EXPECT_EQ(marked(tokenizer, encoded.samples[0].text),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[<think>x</think>b<|im_end|>]\n");
  EXPECT_EQ(
      marked(tokenizer, encoded.samples[1].text),
      "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
      "<|im_start|>assistant\n[<think>y</think>d<|im_end|>]\n");
}

// As Phi-3's template does: the end of the text follows the last turn.
TEST(SampleEncoder, TheEndOfTheTextBehindTheLastTurn) {
  const token::Tokenizer tokenizer = with_jinja(
      templated("gpt2", "chatml"),
      "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
      "'<|im_end|>\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% else %}{{ eos_token }}{% endif %}");
  const Encoded encoded = encode(tokenizer, kChat);
  ASSERT_EQ(encoded.samples.size(), 1U);
  EXPECT_THAT(marked(tokenizer, encoded.samples[0].text),
              HasSubstr("[Hello, wanderer<|im_end|>]\n<|im_start|>user"));
}

// DeepSeek-R1's generation prompt opens a thought that an answer without one does not have.
TEST(SampleEncoder, AnAnswerMayBeginOtherwiseThanTheGenerationPrompt) {
  const token::Tokenizer tokenizer = with_jinja(
      templated("gpt2", "chatml"),
      "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
      "'<|im_end|>' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}");
  const Encoded encoded = encode(tokenizer, R"({"prompt":"a","completion":"b"})");
  EXPECT_EQ(encoded.counts.other_header, 1);
  EXPECT_EQ(marked(tokenizer, encoded.samples[0].text),
            "<|im_start|>user\na<|im_end|><|im_start|>assistant\n[b<|im_end|>]");
}

std::string error_of(const token::Tokenizer& tokenizer, std::string_view json) {
  try {
    (void)encode(tokenizer, json);
    return "no error";
  } catch (const DataError& error) {
    return error.what();
  }
}

TEST(SampleEncoder, RefusesWhatWouldTrainWrongly) {
  const token::Tokenizer bare = fixture("gpt2"), chatml = templated("gpt2", "chatml");
  const auto message = [&](const char* jinja, std::string_view json = kChat) {
    return error_of(with_jinja(chatml, jinja), json);
  };
  EXPECT_THAT(error_of(bare, kChat), HasSubstr("record 1: a chat needs a chat template"));
  EXPECT_THAT(message("{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}"
                      "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"),
              HasSubstr("ends an answer with no special token"));
  EXPECT_THAT(message("{{ raise_exception('no system message') }}"),
              HasSubstr("record 1: the chat template refuses: no system message"));
  EXPECT_THAT(
      message("{{ messages | length }}{% for m in messages %}{{ m.content + '<|im_end|>' }}{% endfor %}"),
      HasSubstr("cannot be told from the rest"));
  EXPECT_THAT(
      message("{% generation %}{{ messages[1].content }}<|im_end|>{% endgeneration %}",
              R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","weight":0},
                  {"role":"user","content":"c"},{"role":"assistant","content":"d"}]})"),
      HasSubstr("marks 1 answers with {% generation %}, the chat has 2"));
  EXPECT_THAT(
      message("{% if false %}{% generation %}{% endgeneration %}{% endif %}{{ messages[0].content }}"),
      HasSubstr("marks no answer"));
  EXPECT_THAT(error_of(chatml, R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"",
                  "tool_calls":[{"function":{"name":"look","arguments":{}}}]}]})"),
              HasSubstr("leaves out the tool call 'look': it does not support tools"));
  EXPECT_THAT(
      error_of(chatml, R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],
                  "tools":[{"function":{"name":"look"}}]})"),
      HasSubstr("leaves out the tool 'look'"));
  token::TokenizerSpec spec = fixture("llama-spm").spec();
  spec.eos.clear();
  spec.chat_template.clear();
  const token::Tokenizer endless(std::move(spec));
  if (!endless.eod_id()) {
    EXPECT_THAT(error_of(endless, R"({"text":"a"})"), HasSubstr("names no end-of-text token"));
  }
}

TEST(SampleEncoder, LongChatsLoseTheirLastTurns) {
  const token::Tokenizer tokenizer = templated("gpt2", "chatml");
  const std::int64_t whole = encode(tokenizer, kChat).samples[0].text.size();
  const Encoded shorter = encode(tokenizer, kChat, whole - 2);
  ASSERT_EQ(shorter.samples.size(), 1U);
  EXPECT_EQ(shorter.counts.shortened, 1);
  const std::string text = marked(tokenizer, shorter.samples[0].text);
  EXPECT_TRUE(text.ends_with("[Hello, wanderer<|im_end|>]")) << text;
  const Encoded none = encode(tokenizer, kChat, 8);
  EXPECT_TRUE(none.samples.empty());
  EXPECT_EQ(none.counts.too_long, 1);
}

TEST(SampleEncoder, LongTextsAreSeveralSamplesThatPredictEveryToken) {
  const token::Tokenizer tokenizer = fixture("gpt2");
  const std::string_view json =
      R"({"text":"the stone and the sea and the wind and the bread of the morning"})";
  const EncodedText whole = encode(tokenizer, json).samples[0].text;
  EXPECT_EQ(whole.tokens.back(), tokenizer.eod_id());
  EXPECT_EQ(whole.trained_tokens(), whole.size() - 1);
  const Encoded cut = encode(tokenizer, json, 5);
  std::vector<token::TokenId> predicted;
  std::int64_t trained = 0;
  for (const EncodedSample& sample : cut.samples) {
    EXPECT_LE(sample.size(), 5);
    predicted.insert(predicted.end(), sample.text.tokens.begin() + 1, sample.text.tokens.end());
    trained += sample.text.trained_tokens();
  }
  EXPECT_EQ(predicted, std::vector<token::TokenId>(whole.tokens.begin() + 1, whole.tokens.end()));
  EXPECT_EQ(trained, whole.trained_tokens());
}

TEST(SampleEncoder, PlainPromptsAreNotTrained) {
  for (const char* name : {"gpt2", "llama-spm", "llama2"}) {
    token::TokenizerSpec spec = fixture(name).spec();
    if (spec.eos.empty() && !token::Tokenizer(spec).eod_id()) continue;
    const token::Tokenizer tokenizer(std::move(spec));
    const Encoded encoded = encode(tokenizer, R"({"prompt":"the stone ","completion":"and the sea"})");
    const EncodedText& text = encoded.samples[0].text;
    const auto first = std::find(text.trained.begin(), text.trained.end(), 1) - text.trained.begin();
    const std::vector<token::TokenId> prompt(text.tokens.begin(), text.tokens.begin() + first),
        answer(text.tokens.begin() + first, text.tokens.end() - 1);
    EXPECT_THAT(tokenizer.decode(prompt), HasSubstr("the stone")) << name;
    EXPECT_THAT(tokenizer.decode(answer), HasSubstr("and the sea")) << name;
    EXPECT_THAT(tokenizer.decode(answer), ::testing::Not(HasSubstr("stone"))) << name;
    EXPECT_EQ(std::count(text.trained.begin() + first, text.trained.end(), 0), 0) << name;
  }
}

TEST(NamedTemplates, AddTheirTokensAndNameTheEnd) {
  const token::Tokenizer base = fixture("gpt2");
  const TemplatedTokenizer made = with_template(base, "chatml");
  const auto first = static_cast<token::TokenId>(base.vocab_size());
  EXPECT_THAT(made.added, ElementsAre(first, first + 1));
  EXPECT_EQ(made.tokenizer.token_to_id("<|im_end|>"), first + 1);
  EXPECT_EQ(made.tokenizer.eos_id(), first + 1);
  EXPECT_EQ(made.tokenizer.encode("the stone"), base.encode("the stone"));
  // Again: nothing is added.
  EXPECT_TRUE(with_template(made.tokenizer, "chatml").added.empty());
  EXPECT_EQ(with_template(made.tokenizer, "none").tokenizer.chat_template(), "");
  try {
    (void)with_template(base, "chatlm");
    FAIL() << "an unknown template was taken";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no chat template 'chatlm' (did you mean 'chatml'?)"));
  }
}

TEST(TokenOffsets, PrefixesGiveTheSamePlacesAsSpelling) {
  const token::Tokenizer tokenizer = templated("gpt2", "chatml");
  const std::string text =
      "<|im_start|>user\nthe stone, é<|im_end|>\n<|im_start|>assistant\nbread<|im_end|>\n";
  token::Encoder encoder(tokenizer);
  std::vector<token::TokenId> ids;
  encoder.encode(text, {}, ids);
  const auto ends = token_ends(tokenizer, text, ids);
  ASSERT_TRUE(ends.has_value());
  for (const char* before : {"user", "bread", "\n<|im_start|>assistant"}) {
    const std::size_t at = text.find(before);
    const auto spelled =
        static_cast<std::size_t>(std::upper_bound(ends->begin(), ends->end(), at) - ends->begin());
    EXPECT_EQ(token_at(encoder, text, ids, at, {}), spelled) << before;
  }
}

}  // namespace
}  // namespace stoa::tune
