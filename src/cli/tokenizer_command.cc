// `stoa tokenizer train | encode | decode | info | bench`.
#include <simdjson.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/file.h"
#include "base/timing.h"
#include "cli/command.h"
#include "cli/input_lines.h"
#include "cli/interrupt.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "data/json_lines.h"
#include "data/json_values.h"
#include "data/text_reader.h"
#include "data/utf8_scan.h"
#include "token/encoder.h"
#include "token/offset_encoder.h"
#include "token/pipeline/pipeline.h"
#include "token/sentencepiece.h"
#include "token/stream_decoder.h"
#include "token/tokenizer.h"
#include "token/trainer.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// The texts of the files, one after another.
class Texts {
 public:
  Texts(std::vector<std::string> files, std::string unit, std::string json_key, data::TextEncoding encoding)
      : files_(std::move(files)),
        unit_(std::move(unit)),
        json_key_(std::move(json_key)),
        encoding_(std::move(encoding)) {}

  double total_bytes() const {
    double total = 0;
    for (const auto& file : files_) {
      require<IoError>(!fs::is_directory(file), "'{}' is a directory; give its files", file);
      require<IoError>(fs::is_regular_file(file), "cannot read {}: no such file", file);
      total += static_cast<double>(fs::file_size(file));
    }
    return total;
  }

  bool next(std::string& text) {
    while (true) {
      if (!source_) {
        if (file_ == files_.size()) return false;
        const fs::path path = files_[file_];
        json_ = data::is_json_lines(path);
        data::TextEncoding encoding = encoding_;
        encoding.line_ends = !json_;
        source_ = data::open_text(path, encoding);
        if (json_) source_ = data::one_value_per_line(std::move(source_));
        line_ = 0;
      }
      const bool whole = unit_ == "file" && !json_;
      const bool ended = whole ? false : next_line();
      if (whole) read_all();
      if (line_text_.empty() && !ended) {
        source_.reset();
        ++file_;
        continue;
      }
      ++line_;
      if (json_) {
        if (line_text_.find_first_not_of(" \t\r") == std::string::npos) continue;
        text = field();
        return true;
      }
      if (unit_ == "line" && line_text_.empty()) continue;
      text = line_text_;
      if (unit_ == "lines" && ended) text.push_back('\n');
      return true;
    }
  }

 private:
  // The next line, without its end, to line_text_; false: the file ended before a line end.
  bool next_line() {
    line_text_.clear();
    for (;;) {
      const std::size_t newline = read_.find('\n', at_);
      line_text_.append(read_, at_, newline == std::string::npos ? newline : newline - at_);
      at_ = newline == std::string::npos ? read_.size() : newline + 1;
      if (newline != std::string::npos) return true;
      if (!refill()) return false;
    }
  }
  void read_all() {
    line_text_.clear();
    do line_text_.append(read_, at_);
    while (refill());
  }
  bool refill() {
    constexpr std::size_t kPiece = 1 << 16;
    read_.resize(kPiece);
    read_.resize(source_->read(read_.data(), kPiece));
    at_ = 0;
    return !read_.empty();
  }

  // The text of a line of JSON.
  std::string field() {
    line_text_.reserve(line_text_.size() + simdjson::SIMDJSON_PADDING);
    try {
      const simdjson::dom::object object = data::parse_json_line(parser_, line_text_, repaired_);
      std::optional<simdjson::dom::element> found;
      for (const auto& [key, value] : object)
        if (key == json_key_) found = value;  // of equal keys the last counts, as in Python
      if (!found) fail<DataError>("{}", data::no_such_key(object, json_key_));
      std::string_view text;
      require<DataError>(found->get(text) == simdjson::SUCCESS, "its \"{}\" is not a string", json_key_);
      return std::string(text);
    } catch (const DataError& e) {
      fail<DataError>("'{}' line {}: {}", files_[file_], line_, e.what());
    }
  }

  const std::vector<std::string> files_;
  const std::string unit_, json_key_;
  const data::TextEncoding encoding_;
  std::unique_ptr<data::ByteSource> source_;
  simdjson::dom::parser parser_;
  std::string repaired_;
  std::string read_, line_text_;  // of the file, from at_ on not handed out
  std::size_t file_ = 0, at_ = 0;
  std::int64_t line_ = 0;
  bool json_ = false;
};

struct TrainTokenizerArguments {
  std::vector<std::string> files, special;
  bool cased = false;
  std::string output, kind = "bpe", split = "gpt2", unit = "lines", json_key = "text", encoding = "auto";
  token::TrainOptions options;
  token::SentencePieceTraining pieces;
  std::int64_t sentinels = 100;
  int workers = available_cores();
  bool json = false;
};

Texts texts_of(const TrainTokenizerArguments& a, Context& context) {
  return {a.files, a.unit, a.json_key, {.name = a.encoding, .notice = [&](std::string_view note) {
                                          context.console.line(note);
                                        }}};
}

bool is_of_pieces(const std::string& kind) { return kind == "unigram" || kind == "sentencepiece-bpe"; }

// A spiece.model is read before all other files of a folder, so that what is trained would never be used.
void require_folder_for(const TrainTokenizerArguments& a) {
  require<ConfigError>(
      is_of_pieces(a.kind) || !fs::exists(fs::path(a.output) / "spiece.model"),
      "'{}' holds spiece.model, a tokenizer of another kind, which would be read instead: choose "
      "another --output, or remove it",
      a.output);
}

// Options of some kinds of tokenizers, given with another kind.
void require_options_of_kind(const CLI::App& command, const std::string& kind) {
  const auto only = [&](std::initializer_list<const char*> options, bool counts, const char* kinds) {
    for (const char* option : options)
      require<UsageError>(counts || command.count(option) == 0,
                          "{} is used only with --kind {}, and the kind is {}", option, kinds, kind);
  };
  const bool pieces = is_of_pieces(kind);
  only({"--sentinels", "--character-coverage", "--byte-fallback"}, pieces, "unigram or sentencepiece-bpe");
  only({"--special", "--min-frequency"}, !pieces, "bpe or wordpiece");
  only({"--cased"}, kind == "wordpiece", "wordpiece");
  only({"--split"}, kind == "bpe", "bpe");
}

void train_pieces(const TrainTokenizerArguments& a, Context& context) {
  token::SentencePieceTraining options = a.pieces;
  options.kind = a.kind == "unigram" ? token::SentencePieceKind::kUnigram : token::SentencePieceKind::kBpe;
  options.vocab_size = a.options.vocab_size;
  options.workers = a.workers;
  Texts texts = texts_of(a, context);
  texts.total_bytes();  // that all are there
  context.console.line("training a SentencePiece vocabulary");
  const auto start = Clock::now();
  auto spec = token::sentencepiece_spec(std::make_shared<const token::SentencePiece>(
      token::train_sentencepiece([&](std::string& text) { return texts.next(text); }, options)));
  token::add_sentinels(a.sentinels, spec);
  const token::Tokenizer tokenizer(spec);
  context.interrupt.finish_files();
  tokenizer.save(a.output);
  if (a.json)
    print_json_line(Json{{"output", a.output},
                         {"vocab_size", tokenizer.vocab_size()},
                         {"fingerprint", tokenizer.fingerprint()},
                         {"seconds", seconds_since(start)}});
  else
    print(fmt::format("{}: {} tokens, {} of them sentinels, fingerprint {}\n", a.output,
                      tokenizer.vocab_size(), a.sentinels, tokenizer.fingerprint()));
}

void train_tokenizer(const TrainTokenizerArguments& a, Context& context) {
  if (is_of_pieces(a.kind)) return train_pieces(a, context);
  token::TrainOptions options = a.options;
  const bool wordpiece = a.kind == "wordpiece";
  options.special_tokens = a.special;
  for (const auto& token : a.special)
    require<UsageError>(!token.empty() && data::scan_utf8(token).valid == token.size(),
                        "--special '{}': expected text in UTF-8", token);
  if (a.special.empty())
    options.special_tokens = wordpiece
                                 ? std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
                                 : std::vector<std::string>{"<|endoftext|>"};
  options.wordpiece.lowercase = !a.cased;
  options.split = token::split_pattern_named(a.split).value();
  Texts texts = texts_of(a, context);
  const double total = texts.total_bytes();
  WorkerPool pool(a.workers);
  const auto start = Clock::now();
  std::unique_ptr<Progress> bar = std::make_unique<Progress>(context.console, "counting words", total, "B");
  bool merging = false;
  token::TrainSummary summary;
  const auto train_tokenizer = wordpiece ? token::train_wordpiece : token::train_bpe;
  const auto spec =
      train_tokenizer([&](std::string& text) { return texts.next(text); }, options, pool,
                      [&](const token::TrainProgress& p) {
                        if (p.stage == token::TrainProgress::Stage::kMerging && !merging) {
                          merging = true;
                          bar->finish();
                          bar = std::make_unique<Progress>(context.console, "merging",
                                                           static_cast<double>(p.total), "tokens");
                        }
                        bar->update(static_cast<double>(p.done));
                      },
                      &summary);
  bar->finish();
  const double seconds = seconds_since(start);
  const token::Tokenizer tokenizer(spec);
  context.interrupt.finish_files();
  tokenizer.save(a.output);
  if (tokenizer.vocab_size() < options.vocab_size) {
    context.console.warn(fmt::format("the text has pairs for {} tokens only, {} were requested",
                                     tokenizer.vocab_size(), options.vocab_size));
  }
  if (a.json) {
    print_json_line(Json{{"output", a.output},
                         {"vocab_size", tokenizer.vocab_size()},
                         {"fingerprint", tokenizer.fingerprint()},
                         {"texts", summary.texts},
                         {"bytes", summary.bytes},
                         {"words", summary.words},
                         {"distinct_words", summary.distinct_words},
                         {"seconds", seconds}});
  } else {
    print(fmt::format("{}: {} tokens, fingerprint {}\n", a.output, tokenizer.vocab_size(),
                      tokenizer.fingerprint()));
  }
}

struct CodeArguments {
  std::string tokenizer, file;
  bool json = false, skip_special = false, offsets = false, json_strings = false;
  token::EncodeOptions options;
  int repeat = 5;
};

void append_ids(const std::vector<token::TokenId>& ids, char separator, std::string& out) {
  char digits[16];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i != 0) out.push_back(separator);
    out.append(digits, std::to_chars(digits, digits + sizeof digits, ids[i]).ptr);
  }
}

// Prints what `append` adds for every line of a file, many lines at a time.
void answer_lines(const std::string& path,
                  const std::function<void(const std::string& line, std::string& out)>& append) {
  std::string out;
  InputLines in(path);
  try {
    for (std::string line; in.next(line);) {
      append(line, out);
      if (out.size() < 1 << 16) continue;
      print(out);
      out.clear();
    }
  } catch (const DataError&) {
    print(out);  // the lines before the wrong one
    throw;
  }
  print(out);
}

// The text of a line that is a JSON string.
std::string json_string(const std::string& line, std::int64_t number) {
  const Json parsed = Json::parse(line, nullptr, false);
  require<DataError>(parsed.is_string(), "line {} is not a JSON string", number);
  return parsed.get<std::string>();
}

void encode(const CodeArguments& a) {
  require<ConfigError>(!a.offsets || a.json, "--offsets is used only with --json");
  const auto tokenizer = token::Tokenizer::load(a.tokenizer);
  token::Encoder encoder(tokenizer);
  std::optional<token::OffsetEncoder> with_offsets;
  if (a.offsets) with_offsets.emplace(tokenizer);
  token::Encoding encoding;
  std::vector<token::TokenId>& ids = encoding.ids;
  std::int64_t number = 0;
  answer_lines(a.file, [&](const std::string& line, std::string& out) {
    ++number;
    const std::string text = a.json_strings ? json_string(line, number) : line;
    ids.clear();
    if (with_offsets)
      with_offsets->encode(text, a.options, encoding);
    else
      encoder.encode(text, a.options, ids);
    if (a.json) out += "{\"ids\":[";
    append_ids(ids, a.json ? ',' : ' ', out);
    if (with_offsets) {
      out += "],\"offsets\":[";
      for (std::size_t i = 0; i < ids.size(); ++i)
        out +=
            fmt::format("{}[{},{}]", i == 0 ? "" : ",", encoding.offsets[i].begin, encoding.offsets[i].end);
    }
    out += a.json ? "]}\n" : "\n";
  });
}

// Numbers with blanks or commas between; brackets and {"ids":…} around them are allowed.
std::vector<token::TokenId> read_ids(const std::string& line, std::int64_t number) {
  std::vector<token::TokenId> ids;
  if (line.find_first_of("[{") != line.npos) {
    const Json parsed = Json::parse(line, nullptr, false);
    const Json* list = parsed.is_object() && parsed.contains("ids") ? &parsed["ids"] : &parsed;
    require<DataError>(list->is_array(), "line {}: expected {{\"ids\":[…]}} or numbers", number);
    for (const Json& id : *list) {
      require<DataError>(id.is_number_integer() && id.get<double>() >= 0 && id.get<double>() < 2147483648.0,
                         "line {}: '{}' is not a token id", number, id.dump());
      ids.push_back(id.get<token::TokenId>());
    }
    return ids;
  }
  const char *p = line.data(), *end = p + line.size();
  while (true) {
    while (p < end && (*p == ' ' || *p == '\t' || *p == ',' || *p == '\r')) ++p;
    if (p == end) return ids;
    token::TokenId id = 0;
    const auto [next, error] = std::from_chars(p, end, id);
    require<DataError>(error == std::errc() && id >= 0, "line {}: '{}' is not a token id", number,
                       std::string(p, std::min<std::ptrdiff_t>(end - p, 20)));
    ids.push_back(id);
    p = next;
  }
}

void decode(const CodeArguments& a) {
  const auto tokenizer = token::Tokenizer::load(a.tokenizer);
  std::int64_t number = 0;
  answer_lines(a.file, [&](const std::string& line, std::string& out) {
    std::string text = tokenizer.decode(read_ids(line, ++number), {.skip_special = a.skip_special});
    if (a.json) text = Json({{"text", token::replace_invalid_utf8(text)}}).dump();
    out += text + "\n";
  });
}

// What a tokenizer.json asks for and encoding leaves out, with its values.
Json not_applied(const token::TokenizerSpec& spec) {
  Json out = Json::object();
  if (spec.original.name != "tokenizer.json") return out;
  const Json file = Json::parse(spec.original.text, nullptr, false);
  for (const char* key : {"truncation", "padding"})
    if (file.is_object() && file.contains(key) && !file[key].is_null()) out[key] = file[key];
  const Json model = file.is_object() ? file.value("model", Json::object()) : Json::object();
  if (model.contains("dropout") && model["dropout"].is_number() && model["dropout"] > 0 &&
      model["dropout"] < 1)
    out["dropout"] = model["dropout"];
  return out;
}

void info(const CodeArguments& a) {
  const auto t = token::Tokenizer::load(a.tokenizer);
  Json special = Json::array();
  for (const auto& added : t.added_tokens()) {
    special.push_back({{"id", added.id}, {"content", added.content}, {"special", added.special}});
  }
  const auto id = [](std::optional<token::TokenId> value) { return value ? Json(*value) : Json(nullptr); };
  const token::TokenizerSpec& spec = t.spec();
  const bool components = spec.form == token::SymbolForm::kComponents;
  const char* normalizer = spec.form == token::SymbolForm::kWordPiece                   ? "BERT"
                           : spec.model                                                 ? "SentencePiece"
                           : spec.nfc                                                   ? "NFC"
                           : components && spec.pipeline->parts().normalizer != nullptr ? "components"
                                                                                        : "none";
  print_json(Json{{"vocab_size", t.vocab_size()},
                  {"merges", spec.merges.size()},
                  {"split", components ? "components" : std::string(token::name(spec.split))},
                  {"normalizer", normalizer},
                  {"file", spec.original.name.empty() ? Json(nullptr) : Json(spec.original.name)},
                  {"not_applied", not_applied(spec)},
                  {"fingerprint", t.fingerprint()},
                  {"bos_id", id(t.bos_id())},
                  {"eos_id", id(t.eos_id())},
                  {"pad_id", id(t.pad_id())},
                  {"eod_id", id(t.eod_id())},
                  {"sentinels", t.sentinel_ids().size()},
                  {"chat_template", !t.chat_template().empty()},
                  {"added_tokens", special}});
}

// Encodes the lines of a file in memory on one thread: what the encoder itself reaches.
void bench(const CodeArguments& a) {
  const auto load_start = Clock::now();
  token::Encoder encoder(token::Tokenizer::load(a.tokenizer));
  const double load_seconds = seconds_since(load_start);
  std::vector<std::string> lines;
  std::int64_t bytes = 0;
  InputLines in(a.file);
  for (std::string line; in.next(line);) {
    if (line.empty()) continue;
    bytes += static_cast<std::int64_t>(line.size());
    lines.push_back(line);
  }
  require<DataError>(bytes > 0, "{} holds no text", a.file);
  std::vector<token::TokenId> ids;
  double first = 0, best = 0;
  for (int r = 0; r < a.repeat; ++r) {
    ids.clear();
    const auto start = Clock::now();
    for (const auto& line : lines) encoder.encode(line, a.options, ids);
    const double seconds = seconds_since(start);
    if (r == 0) first = best = seconds;
    best = std::min(best, seconds);
  }
  const auto rate = [&](double seconds) { return static_cast<double>(bytes) / 1e6 / seconds; };
  print_json_line(Json{{"op", "encode"},
                       {"threads", 1},
                       {"mb", static_cast<double>(bytes) / 1e6},
                       {"tokens", ids.size()},
                       {"load_seconds", load_seconds},
                       {"first_mb_per_s", rate(first)},
                       {"mb_per_s", rate(best)}});
}

void add_tokenizer_option(CLI::App* command, CodeArguments& a) {
  command
      ->add_option(
          "--tokenizer,-t", a.tokenizer,
          "directory, tokenizer.json, tekken.json, spiece.model, .tiktoken, or vocab.json with merges.txt")
      ->required();
}

}  // namespace

void add_tokenizer_command(CLI::App& app, Context& context) {
  CLI::App* tokenizer = app.add_subcommand(
      "tokenizer", "Train, use and inspect tokenizers: byte-level BPE, WordPiece, SentencePiece");
  tokenizer->require_subcommand(1);

  auto t = std::make_shared<TrainTokenizerArguments>();
  CLI::App* c = tokenizer->add_subcommand("train", "Train a vocabulary on text files");
  c->footer("Example: stoa tokenizer train corpus.txt --vocab-size 8192 --output tok");
  c->add_option("FILES", t->files, "text files; .jsonl: one object per line; also as .gz or .zst; .parquet")
      ->required();
  c->add_option(
       "--encoding", t->encoding,
       "of the files, as iconv names it; auto: detected, and reported if it is not UTF-8; bytes: unchanged")
      ->capture_default_str();
  c->add_option("--vocab-size", t->options.vocab_size, "tokens, special ones and the 256 bytes included")
      ->required()
      ->check(between(1, 1 << 28));
  c->add_option("--output,-o", t->output,
                "directory for tokenizer.json, vocab.json, merges.txt, or for spiece.model")
      ->required();
  c->add_option(
       "--special", t->special,
       "special tokens, ids from 0; one per use of the option; with BPE the first ends documents. Default: "
       "<|endoftext|>; of WordPiece [PAD] [UNK] [CLS] [SEP] [MASK]")
      ->allow_extra_args(false);
  c->add_option("--sentinels", t->sentinels,
                "SentencePiece: tokens <extra_id_0>, <extra_id_1> ... after the vocabulary")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  c->add_option("--character-coverage", t->pieces.character_coverage,
                "SentencePiece: share of the text's characters that get a piece")
      ->check(CLI::Range(0.9, 1.0))
      ->capture_default_str();
  c->add_flag("--byte-fallback", t->pieces.byte_fallback,
              "SentencePiece: text without a piece is encoded as bytes instead of <unk>");
  c->add_option(
       "--kind", t->kind,
       "byte-level BPE; WordPiece as BERT uses it; unigram or sentencepiece-bpe: a SentencePiece model, as "
       "for T5")
      ->check(CLI::IsMember({"bpe", "wordpiece", "unigram", "sentencepiece-bpe"}))
      ->capture_default_str();
  c->add_flag("--cased", t->cased, "WordPiece: keep capital letters and accents");
  c->add_option("--min-frequency", t->options.min_frequency, "merge only pairs with at least this frequency")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  c->add_option("--split", t->split, "how text is split into words")
      ->check(CLI::IsMember({"gpt2", "llama3", "qwen2", "bloom", "none"}))
      ->capture_default_str();
  c->add_option("--unit", t->unit,
                "what is one text in a text file: lines with their newline (as Hugging Face trains on "
                "files), each line "
                "without it, or the file")
      ->check(CLI::IsMember({"lines", "line", "file"}))
      ->capture_default_str();
  c->add_option("--json-key", t->json_key, "the field of .jsonl that holds the text")->capture_default_str();
  c->add_option("--workers", t->workers, "threads")->capture_default_str()->check(between(1, 1024));
  c->add_flag("--json", t->json, "print a JSON summary");
  c->callback([t, c, &context] {
    require_options_of_kind(*c, t->kind);
    require_folder_for(*t);
    train_tokenizer(*t, context);
  });

  auto e = std::make_shared<CodeArguments>();
  c = tokenizer->add_subcommand("encode", "Text lines to token ids");
  c->footer("Example: echo 'Hello world' | stoa tokenizer encode --tokenizer tok");
  add_tokenizer_option(c, *e);
  c->add_option("FILE", e->file, "default: standard input");
  c->add_flag("--json", e->json, "{\"ids\":[…]} per line");
  c->add_flag("--offsets", e->offsets,
              "with --json: \"offsets\":[[begin,end],…] too, the characters of the text for each token");
  c->add_flag("--json-strings", e->json_strings, "every line is a JSON string: texts may hold newlines");
  c->add_flag("--plain", e->options.plain, "special tokens in the text are encoded as text");
  c->add_flag("--add-special", e->options.add_special, "add the tokenizer's special tokens around the text");
  c->callback([e] { encode(*e); });

  auto d = std::make_shared<CodeArguments>();
  c = tokenizer->add_subcommand("decode", "Lines of token ids to text");
  c->footer("Example: echo '15496 995' | stoa tokenizer decode --tokenizer tok");
  add_tokenizer_option(c, *d);
  c->add_option("FILE", d->file, "default: standard input");
  c->add_flag("--json", d->json, "{\"text\":…} per line (bytes that are not UTF-8 become U+FFFD)");
  c->add_flag("--skip-special", d->skip_special, "skip special tokens");
  c->callback([d] { decode(*d); });

  auto i = std::make_shared<CodeArguments>();
  c = tokenizer->add_subcommand("info", "Sizes, special tokens and fingerprint, as JSON");
  c->footer("Example: stoa tokenizer info --tokenizer tok");
  add_tokenizer_option(c, *i);
  c->callback([i] { info(*i); });

  auto b = std::make_shared<CodeArguments>();
  c = tokenizer->add_subcommand("bench", "Encoding speed on one thread, as JSON");
  c->footer("Example: stoa tokenizer bench --tokenizer tok corpus.txt");
  add_tokenizer_option(c, *b);
  c->add_option("FILE", b->file, "text; each non-empty line is one text")->required();
  c->add_option("--repeat", b->repeat, "number of passes; the best is reported")
      ->capture_default_str()
      ->check(between(1, 1e6));
  c->callback([b] { bench(*b); });
}

}  // namespace stoa::cli
