// `stoa data prepare`, `stoa data inspect` and the other commands of `stoa data`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/cores.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/data_commands.h"
#include "cli/data_inspect.h"
#include "cli/document_encoder.h"
#include "cli/interrupt.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/text_files.h"
#include "data/prepare.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::chrono::seconds kStopGrace(10);  // of a preparation: a document may be long

struct PrepareArguments {
  std::vector<std::string> inputs;
  std::string tokenizer, output, form = "auto", text_split = "file", encoding = "auto";
  data::PrepareOptions options;
  token::EncodeOptions encode;
  bool json = false, measure_encoder = false;
};

void run_prepare(const PrepareArguments& a, Context& context) {
  data::PrepareOptions options = a.options;
  options.inputs.assign(a.inputs.begin(), a.inputs.end());
  options.output = a.output;
  if (a.form != "auto")
    options.read.form = a.form == "jsonl" ? data::TextForm::kJsonLines : data::TextForm::kPlain;
  options.read.text_split = text_split_named(a.text_split);
  options.read.encoding.name = a.encoding;
  options.read.encoding.notice = [&](std::string_view note) { context.console.line(note); };
  context.interrupt.set({.grace = kStopGrace,
                         .words = "exiting, nothing is written (again: exit immediately)",
                         .last_words = [] { return std::string("nothing was written"); }});
  const TokenizerEncoder encoder(token::Tokenizer::load(a.tokenizer), a.encode);
  if (a.measure_encoder) {
    const auto rate = data::measure_encoder(options, encoder);
    const double mb_per_s = static_cast<double>(rate.text_bytes) / 1e6 / rate.seconds;
    if (a.json) {
      print_json_line(Json{{"text_bytes", rate.text_bytes},
                           {"tokens", rate.tokens},
                           {"seconds", rate.seconds},
                           {"cpu_seconds", rate.cpu_seconds},
                           {"mb_per_s", mb_per_s}});
    } else {
      print(fmt::format("encoder alone, one thread: {:.1f} MB/s\n", mb_per_s));
    }
    return;
  }
  require<UsageError>(!a.output.empty(), "--output is required");
  const auto result = data::prepare(options, encoder, context.console, context.interrupt.token());
  const auto& p = result.provenance;
  if (result.empty_documents > 0)
    context.console.warn(fmt::format("{} documents are empty", result.empty_documents));
  if (result.single_documents > 0)
    context.console.warn(fmt::format(
        "{} of {} documents have one sentence only (no . ! ? within): samples of two segments skip them",
        result.single_documents, p.documents));
  const double mb_per_s = static_cast<double>(result.text_bytes) / 1e6 / result.seconds;
  if (a.json) {
    print_json_line(Json{{"prefix", a.output},
                         {"documents", p.documents},
                         {"sequences", p.sequences},
                         {"tokens", p.tokens},
                         {"dtype", data::token_dtype_name(result.dtype)},
                         {"empty_documents", result.empty_documents},
                         {"text_bytes", result.text_bytes},
                         {"seconds", result.seconds},
                         {"cpu_seconds", result.cpu_seconds},
                         {"worker_cpu_seconds", result.worker_cpu_seconds},
                         {"mb_per_s", mb_per_s},
                         {"tokenizer", p.tokenizer_fingerprint}});
  } else {
    print(fmt::format("{}: {} documents, {} tokens ({}), {:.1f} MB/s of text\n", a.output, p.documents,
                      p.tokens, data::token_dtype_name(result.dtype), mb_per_s));
  }
}

struct TextCommandArguments {
  std::vector<std::string> files;
  std::string encoding = "auto";
};

void run_text(const TextCommandArguments& a, Context& context) {
  constexpr std::size_t kPiece = 1 << 16;
  std::string piece;
  for (const std::string& file : a.files) {
    data::describe_input(file, {.form = data::TextForm::kPlain});  // that it is there
    const auto source = data::open_text(
        file, {.name = a.encoding, .notice = [&](std::string_view note) { context.console.line(note); }});
    for (;;) {
      piece.resize(kPiece);
      piece.resize(source->read(piece.data(), kPiece));
      if (piece.empty()) break;
      print(piece);
    }
  }
}

struct InspectArguments {
  std::string prefix, tokenizer;
  InspectOptions options;
  bool json = false;
};

void run_inspect(const InspectArguments& a, Context& context) {
  const data::IndexedDataset data(a.prefix);
  std::optional<token::Tokenizer> tokenizer;
  if (!a.tokenizer.empty()) tokenizer = token::Tokenizer::load(a.tokenizer);
  const Json report = inspect_data(data, tokenizer, a.options);
  if (report.contains("tokenizer_matches") && !report["tokenizer_matches"].get<bool>())
    context.console.warn(
        "the tokenizer is not the one that the data was prepared with; the text below may be wrong");
  a.json ? print_json_line(report) : print(describe_inspection(report));
}

void add_prepare(CLI::App& data, Context& context) {
  auto a = std::make_shared<PrepareArguments>();
  a->options.workers = available_cores();
  CLI::App* c =
      data.add_subcommand("prepare", "Text to token files PREFIX.bin and PREFIX.idx (Megatron's format)");
  c->footer("Example: stoa data prepare corpus.jsonl --tokenizer tok --output data/corpus");
  c->add_option("INPUTS", a->inputs,
                ".jsonl (one object per line) and .txt files, also as .gz or .zst, and .parquet")
      ->required();
  c->add_option("--tokenizer,-t", a->tokenizer, "directory, tokenizer.json, or vocab.json with merges.txt")
      ->required();
  c->add_option("--output,-o", a->output, "PREFIX of the output files");
  c->add_option("--json-key", a->options.json_key, "the key of .jsonl whose value is the text")
      ->capture_default_str();
  c->add_flag("--append-eod,!--no-append-eod", a->options.append_eod,
              "end every document with the end-of-document token (default)");
  c->add_flag("--split-sentences", a->options.split_sentences,
              "store every sentence as a sequence of its document, for samples of kind bert; no "
              "end-of-document tokens unless --append-eod is given");
  c->add_flag("--plain", a->encode.plain, "special tokens in the text are encoded as text");
  c->add_option("--workers", a->options.workers, "encoding threads; the result does not depend on them")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  c->add_option("--form", a->form, "format of the inputs; auto: by their extension")
      ->check(CLI::IsMember({"auto", "jsonl", "txt"}))
      ->capture_default_str();
  c->add_option("--text-split", a->text_split, "what is one document of a .txt file")
      ->check(CLI::IsMember({"file", "paragraph", "line"}))
      ->capture_default_str();
  c->add_option("--text-min-bytes", a->options.read.text_min_bytes,
                "with --text-split paragraph or line: join them up to this many bytes per document")
      ->capture_default_str()
      ->check(between(0, 1e12));
  c->add_option(
       "--encoding", a->encoding,
       "of the inputs, as iconv names it; auto: detected, and reported if it is not UTF-8; bytes: unchanged")
      ->capture_default_str();
  c->add_flag("--measure-encoder", a->measure_encoder,
              "only time the encoder, one thread, on the documents in memory; writes nothing");
  c->add_flag("--json", a->json, "print the result as JSON");
  c->callback([a, c, &context] {
    require<UsageError>(c->count("--text-min-bytes") == 0 || a->text_split != "file",
                        "--text-min-bytes is used only with --text-split paragraph or line");
    if (a->options.split_sentences && c->count("--append-eod") == 0) a->options.append_eod = false;
    run_prepare(*a, context);
  });
}

void add_text(CLI::App& data, Context& context) {
  auto a = std::make_shared<TextCommandArguments>();
  CLI::App* c = data.add_subcommand(
      "text", "Text files as `data prepare` reads them: decompressed, as UTF-8 with Unix line endings");
  c->footer("Example: stoa data text notes.txt > notes-utf8.txt");
  c->add_option("FILES", a->files, "also as .gz or .zst")->required();
  c->add_option("--encoding", a->encoding, "as iconv names it; auto: detected")->capture_default_str();
  c->callback([a, &context] { run_text(*a, context); });
}

void add_inspect(CLI::App& data, Context& context) {
  auto a = std::make_shared<InspectArguments>();
  CLI::App* c =
      data.add_subcommand("inspect", "Counts, lengths, type, tokenizer and first documents of token files");
  c->footer("Example: stoa data inspect data/corpus --tokenizer tok");
  c->add_option("PREFIX", a->prefix, "PREFIX of PREFIX.bin and PREFIX.idx")->required();
  c->add_option("--tokenizer,-t", a->tokenizer,
                "shows the documents as text, and whether the data was prepared with it");
  c->add_option("--documents", a->options.documents, "number of documents to show")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  c->add_option("--tokens", a->options.tokens, "of each")->capture_default_str()->check(between(1, 1e9));
  c->add_flag("--verify", a->options.verify, "read everything: checksums, ids within the vocabulary");
  c->add_flag("--json", a->json, "print the answer as JSON");
  c->callback([a, &context] { run_inspect(*a, context); });
}

}  // namespace

void add_data_command(CLI::App& app, Context& context) {
  CLI::App* data = app.add_subcommand("data", "Prepare and inspect training data");
  data->require_subcommand(1);
  add_prepare(*data, context);
  add_text(*data, context);
  add_inspect(*data, context);
  add_data_collect(*data, context);
  add_data_run(*data, context);
  add_data_tag(*data, context);
  add_data_decide(*data, context);
  add_data_dedup(*data, context);
  add_data_blend(*data, context);
  add_data_mix(*data, context);
  add_data_train_classifier(*data, context);
  add_data_train_lm(*data, context);
  add_data_browse(*data, context);
  add_data_stages(*data, context);
  add_data_show(*data, context);
}

}  // namespace stoa::cli
