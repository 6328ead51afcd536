// /infill, llama-server's form of filling in the middle: the text between a prefix and a suffix, asked for by
// the special tokens that a model was trained with.
#include "serve/infill.h"

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/constraint_fields.h"
#include "serve/handlers.h"
#include "serve/sampling_fields.h"

namespace stoa::serve {
namespace {

// Names of the tokens in families of models; of files: what stands before the name of each.
struct InfillNames {
  const char *prefix, *suffix, *middle, *file;
};
constexpr std::array kInfillNames{
    InfillNames{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>"},  // Qwen, CodeGemma
    InfillNames{"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>"},          // StarCoder, Granite
    InfillNames{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", nullptr},         // DeepSeek
    InfillNames{"▁<PRE>", "▁<SUF>", "▁<MID>", nullptr},                                 // Code Llama
    InfillNames{"<PRE>", "<SUF>", "<MID>", nullptr},
    InfillNames{"[PREFIX]", "[SUFFIX]", nullptr, nullptr}};  // Codestral: the suffix first, no third token

class InfillTask : public GenerationTask {
 public:
  InfillTask(std::shared_ptr<ServedModel> model, const Call& call, bool stream)
      : GenerationTask(std::move(model), call.answer, stream) {}

 protected:
  void on_piece(std::size_t, AnswerPiece piece) override {
    text_ += piece.text;
    if (stream() && !piece.text.empty()) event({{"index", 0}, {"content", piece.text}, {"stop", false}});
  }
  void on_choice_end(std::size_t, infer::EndReason reason) override {
    stop_type_ = reason == infer::EndReason::kEndToken   ? "eos"
                 : reason == infer::EndReason::kStopText ? "word"
                                                         : "limit";
  }
  void on_finish() override {
    const Json last{{"index", 0},
                    {"content", stream() ? "" : text_},
                    {"stop", true},
                    {"stop_type", stop_type_},
                    {"model", model().name()},
                    {"tokens_predicted", usage().completion_tokens},
                    {"tokens_evaluated", usage().prompt_tokens},
                    {"tokens_cached", usage().cached_tokens},
                    {"truncated", false}};
    if (stream()) return event(last);
    answer().send({200, "application/json", json_text(last)});
  }

 private:
  std::string text_, stop_type_;
};

}  // namespace

std::vector<std::int32_t> infill_prompt(const ServedModel& model, const InfillText& text, const char* field) {
  check(
      !model.reads_sources(), field,
      "'{}': the model '{}' is an encoder-decoder: mark in the prompt of /v1/completions what is missing, as "
      "in its training (T5: <extra_id_0>)",
      field, model.name());
  const token::Tokenizer& tokenizer = model.tokenizer();
  const auto id_of = [&](const char* name) {
    return name == nullptr ? std::nullopt : tokenizer.token_to_id(name);
  };
  for (const InfillNames& names : kInfillNames) {
    const auto prefix = id_of(names.prefix), suffix = id_of(names.suffix), middle = id_of(names.middle),
               file = id_of(names.file);
    if (!prefix || !suffix || (names.middle != nullptr && !middle)) continue;
    std::vector<std::int32_t> out;
    if (const auto bos = tokenizer.bos_id();
        bos && tokenizer.encode("a", {.add_special = true}).front() == *bos)
      out.push_back(*bos);
    const auto add = [&](std::string_view part) {
      const auto ids = tokenizer.encode(part, {.plain = true, .add_special = false});
      out.insert(out.end(), ids.begin(), ids.end());
    };
    check(text.files.empty() || file.has_value(), "input_extra",
          "'input_extra': the model has no token that separates files");
    for (const auto& [name, content] : text.files) {
      out.push_back(*file);
      add(name + "\n" + content);
    }
    if (!middle) {
      out.push_back(*suffix);
      add(text.suffix);
      out.push_back(*prefix);
      add(text.prefix);
      return out;
    }
    out.push_back(*prefix);
    add(text.prefix);
    out.push_back(*suffix);
    add(text.suffix);
    out.push_back(*middle);
    return out;
  }
  reject(field, "'{}': the model '{}' has no tokens for filling in the middle", field, model.name());
}

void infill(const Call& call) {
  const RequestBody& body = call.body;
  const auto& model = call.model;
  model->require_engine();
  InfillText text;
  text.prefix = body.text("input_prefix").value_or("") + body.text("prompt").value_or("");
  text.suffix = body.text("input_suffix").value_or("");
  check(body.has("input_prefix") || body.has("input_suffix"), "input_prefix",
        "give 'input_prefix', 'input_suffix' or both");
  if (const Json* files = body.find("input_extra")) {
    check(files->is_array() && files->size() <= 1024, "input_extra",
          "'input_extra' must be a list of at most 1024 files");
    for (const Json& file : *files) {
      const bool good = file.is_object() && file.value("text", Json()).is_string() &&
                        file.value("filename", Json("")).is_string();
      check(good, "input_extra", R"('input_extra': each must be {{"filename": …, "text": …}})");
      text.files.emplace_back(file.value("filename", std::string("tmp")), file["text"].get<std::string>());
    }
  }
  infer::Request job = read_sampling(body, *model);
  job.prompt = infill_prompt(*model, text, "model");
  job.constraint = read_constraint(body, *model);
  job.max_tokens = answer_length(*model, job.prompt.size(), read_length(body, "n_predict"), "n_predict");
  job.tenant = call.owner;
  AnswerText::Options how;
  how.stop = read_stops(body, "stop");
  std::vector<infer::Request> jobs;
  jobs.push_back(std::move(job));
  std::make_shared<InfillTask>(model, call, body.boolean("stream", false))->run(std::move(jobs), how);
}

}  // namespace stoa::serve
