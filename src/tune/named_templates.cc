#include "tune/named_templates.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "chat/chat_template.h"

namespace stoa::tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kChatml =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
    "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
    "{% endif %}";

constexpr std::string_view kLlama3 =
    "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + "
    "'<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}";

// A system message becomes the beginning of the first user message, as in Gemma 3.
constexpr std::string_view kGemma =
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set first = messages[0]['content'] + '\\n\\n' "
    "%}"
    "{% set turns = messages[1:] %}{% else %}{% set first = '' %}{% set turns = messages %}{% endif %}"
    "{% for message in turns %}{% set role = 'model' if message['role'] == 'assistant' else message['role'] "
    "%}"
    "{{ '<start_of_turn>' + role + '\\n' + (first if loop.first else '') + message['content'] | trim + "
    "'<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif "
    "%}";

constexpr std::string_view kPhi3 =
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}";

constexpr std::string_view kMistral =
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set first = messages[0]['content'] + '\\n\\n' "
    "%}"
    "{% set turns = messages[1:] %}{% else %}{% set first = '' %}{% set turns = messages %}{% endif %}"
    "{% for message in turns %}{% if message['role'] == 'user' %}{{ '[INST] ' + (first if loop.first else "
    "'') + "
    "message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + message['content'] "
    "+ "
    "eos_token }}{% else %}{{ raise_exception('only user and assistant take turns in this template') }}"
    "{% endif %}{% endfor %}";

constexpr std::string_view kZephyr =
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] + eos_token + "
    "'\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}";

constexpr std::string_view kAlpaca =
    "{% for message in messages %}{% if message['role'] == 'user' %}{{ '### Instruction:\\n' + "
    "message['content'] + '\\n\\n### Response:\\n' }}{% elif message['role'] == 'assistant' %}"
    "{{ message['content'] + eos_token + '\\n\\n' }}{% else %}{{ message['content'] + '\\n\\n' }}{% endif %}"
    "{% endfor %}";

// The text of tokenizer.json with further special tokens, and their ids from `next` on.
std::string add_tokens(const token::TokenizerSpec& spec, const std::vector<std::string>& contents,
                       token::TokenId next) {
  const bool own = spec.original.name == "tokenizer.json" && !spec.original.text.empty();
  Json file = Json::parse(own ? spec.original.text : token::tokenizer_json(spec));
  for (const std::string& content : contents)
    file["added_tokens"].push_back({{"id", next++},
                                    {"content", content},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  return file.dump(2);
}

// What the other files of a tokenizer say stays as it was.
void keep_rest(const token::TokenizerSpec& from, token::TokenizerSpec& to) {
  to.bos = from.bos, to.eos = from.eos, to.pad = from.pad, to.unk = from.unk;
  to.cls = from.cls, to.sep = from.sep, to.mask = from.mask;
  to.add_bos = from.add_bos;
  to.model_max_length = from.model_max_length;
  to.sentinels = from.sentinels;
}

const NamedTemplate* find_template(const std::string& choice) {
  for (const NamedTemplate& known : named_templates())
    if (known.name == choice) return &known;
  return nullptr;
}

std::string read_template(const std::string& choice) {
  std::error_code error;
  if (std::filesystem::is_regular_file(choice, error)) {
    std::string text = read_text(choice);
    (void)chat::ChatTemplate(text);  // refuses what it cannot run
    return text;
  }
  std::vector<std::string> names{"none"};
  for (const NamedTemplate& known : named_templates()) names.emplace_back(known.name);
  std::string list;
  for (const auto& name : names) list += (list.empty() ? "" : ", ") + name;
  fail<ConfigError>("no chat template '{}'{}: expected a Jinja file or one of {}", choice,
                    did_you_mean(choice, names), list);
}

}  // namespace

const std::vector<NamedTemplate>& named_templates() {
  static const std::vector<NamedTemplate> templates{
      {"chatml", kChatml, {"<|im_start|>", "<|im_end|>"}, "<|im_end|>"},
      {"llama3", kLlama3, {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}, "<|eot_id|>"},
      {"gemma", kGemma, {"<start_of_turn>", "<end_of_turn>"}, "<end_of_turn>"},
      {"phi3", kPhi3, {"<|system|>", "<|user|>", "<|assistant|>", "<|end|>"}, "<|end|>"},
      {"mistral", kMistral, {"[INST]", "[/INST]"}, ""},
      {"zephyr", kZephyr, {}, ""},
      {"alpaca", kAlpaca, {}, ""},
  };
  return templates;
}

TemplatedTokenizer with_template(const token::Tokenizer& tokenizer, const std::string& choice) {
  token::TokenizerSpec spec = tokenizer.spec();
  std::vector<token::TokenId> added;
  if (choice == "none") {
    spec.chat_template.clear();
    return {token::Tokenizer(std::move(spec)), {}};
  }
  const NamedTemplate* known = find_template(choice);
  const std::string jinja = known ? std::string(known->jinja) : read_template(choice);
  if (known) {
    require<DataError>(
        !known->end.empty() || tokenizer.eos_id() || tokenizer.eod_id(),
        "the tokenizer names no end-of-text token, with which answers of template {} end; take "
        "chatml, which brings one",
        choice);
    if (spec.eos.empty() && tokenizer.eod_id()) spec.eos = tokenizer.id_to_token(*tokenizer.eod_id());
    std::vector<std::string> missing;
    for (const std::string_view token : known->tokens)
      if (!tokenizer.token_to_id(token)) missing.emplace_back(token);
    if (!missing.empty()) {
      require<DataError>(spec.form != token::SymbolForm::kModel,
                         "template {} adds the tokens {}, which a SentencePiece model without tokenizer.json "
                         "cannot take; write its tokenizer.json with transformers, or take template alpaca",
                         choice, missing.front());
      const auto next = static_cast<token::TokenId>(tokenizer.vocab_size());
      token::TokenizerSpec wider = token::parse_tokenizer_json(add_tokens(spec, missing, next));
      keep_rest(spec, wider);
      for (std::size_t i = 0; i < missing.size(); ++i) added.push_back(next + static_cast<token::TokenId>(i));
      spec = std::move(wider);
    }
    if (!known->end.empty()) spec.eos = known->end;
  }
  spec.chat_template = jinja;
  spec.more_templates.clear();
  return {token::Tokenizer(std::move(spec)), std::move(added)};
}

}  // namespace stoa::tune
