#include "cli/prompt_file.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>

#include "base/file.h"
#include "data/text_reader.h"
#include "serve/chat_messages.h"
#include "serve/sampling_fields.h"

namespace stoa::cli {
namespace {

using serve::Field;

constexpr std::array<Field, 16> kPromptFields{Field{"prompt"},
                                              Field{"messages"},
                                              Field{"id"},
                                              Field{"metadata"},
                                              Field{"max_tokens"},
                                              Field{"greedy"},
                                              Field{"temperature"},
                                              Field{"top_k"},
                                              Field{"top_p"},
                                              Field{"min_p"},
                                              Field{"repetition_penalty"},
                                              Field{"presence_penalty"},
                                              Field{"frequency_penalty"},
                                              Field{"stop"},
                                              Field{"seed"},
                                              Field{"min_tokens"}};

constexpr const char* kDrawing[] = {
    "greedy",           "temperature",       "top_k", "top_p",     "min_p", "repetition_penalty",
    "presence_penalty", "frequency_penalty", "seed",  "min_tokens"};

// Returns whether there is one that says how tokens are drawn.
bool read_options(const serve::RequestBody& body, infer::GenerateOptions& options) {
  auto& s = options.sampling;
  options.max_tokens = body.integer("max_tokens", 1, 1'000'000'000).value_or(options.max_tokens);
  // Whoever says how to draw wants to draw.
  const bool draws = body.has("temperature") || body.has("top_k") || body.has("top_p") || body.has("min_p");
  s.greedy = body.boolean("greedy", s.greedy && !draws);
  require<DataError>(!draws || !s.greedy,
                     "'greedy' takes the most likely token: leave out temperature, top_k, top_p and min_p");
  s.temperature = body.number("temperature", 0, 1000).value_or(s.temperature);
  s.top_k = body.integer("top_k", 0, 1'000'000'000).value_or(s.top_k);
  s.top_p = body.number("top_p", 1e-9, 1).value_or(s.top_p);
  s.min_p = body.number("min_p", 0, 1).value_or(s.min_p);
  s.repetition_penalty = body.number("repetition_penalty", 1e-3, 1000).value_or(s.repetition_penalty);
  s.presence_penalty = body.number("presence_penalty", -2, 2).value_or(s.presence_penalty);
  s.frequency_penalty = body.number("frequency_penalty", -2, 2).value_or(s.frequency_penalty);
  s.min_tokens = body.integer("min_tokens", 0, 1'000'000'000).value_or(s.min_tokens);
  if (body.has("stop")) options.stop = serve::read_stops(body, "stop");
  if (const auto seed = body.integer("seed", 0, std::numeric_limits<std::int64_t>::max()))
    s.seed = static_cast<std::uint64_t>(*seed);
  return std::any_of(std::begin(kDrawing), std::end(kDrawing),
                     [&](const char* name) { return body.has(name); });
}

}  // namespace

bool is_read_once(const std::string& path) {
  std::error_code ignored;
  return path.empty() || path == "-" || fs::is_other(path, ignored);
}

PromptFile::PromptFile(const std::string& path, const infer::GenerateOptions& options)
    : path_(path), options_(options), json_(data::is_json_lines(path)), lines_(path, json_) {}

std::string PromptFile::place() const {
  return fmt::format("{}:{}", path_.empty() || path_ == "-" ? "standard input" : path_, line_);
}

bool PromptFile::next(FilePrompt& prompt) {
  for (std::string line; lines_.next(line);) {
    ++line_;
    const bool is_empty_array = line_ == 1 && line == "[]";
    if (json_ && (is_empty_array || line.find_first_not_of(" \t") == std::string::npos)) continue;
    prompt = {};
    prompt.line = line_;
    prompt.options = options_;
    prompt.options.sampling.seed += static_cast<std::uint64_t>(line_ - 1);
    at_place([&] { parse(line, prompt); });
    return true;
  }
  return false;
}

void PromptFile::parse(const std::string& line, FilePrompt& prompt) const {
  if (!json_) {
    prompt.text = line;
    return;
  }
  if (line.starts_with('"')) {
    const auto text = nlohmann::ordered_json::parse(line, nullptr, false);
    require<DataError>(text.is_string(), "not a JSON text, nor an object with 'prompt' or 'messages'");
    prompt.text = text;
    return;
  }
  require<DataError>(!line.starts_with('['), "expected texts, or objects with 'prompt' or 'messages'");
  const serve::RequestBody body(line, kPromptFields, false, "the line");
  require<DataError>(body.has("prompt") != body.has("messages"),
                     "a line needs either 'prompt', a text, or 'messages', a conversation");
  if (body.has("messages"))
    prompt.messages = serve::read_messages(body, "messages");
  else
    prompt.text = *body.text("prompt");
  for (const char* label : {"id", "metadata"})
    if (const auto* value = body.find(label)) prompt.labels[label] = *value;
  prompt.draws = read_options(body, prompt.options);
  infer::validate(prompt.options.sampling);
}

}  // namespace stoa::cli
