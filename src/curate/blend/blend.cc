#include "curate/blend/blend.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/error.h"
#include "curate/blend/page_budget.h"
#include "curate/dedup/record_sorter.h"
#include "curate/io/input_files.h"
#include "data/indexed_writer.h"

namespace stoa::curate {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::array<const char*, 3> kSplits = {"train", "validation", "test"};
constexpr int kSourceShift = 48;  // of a document's number in a sort: source << 48 | document

// Counter-based: what is drawn for a document depends on nothing else.
enum class Draw : std::uint64_t { kSplit, kPartialEpoch, kOrder };
std::uint64_t draw(std::int64_t seed, Draw what, std::uint64_t source, std::uint64_t document,
                   std::uint64_t epoch = 0) {
  const std::uint64_t values[] = {static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(what), source,
                                  document, epoch};
  return XXH3_64bits(values, sizeof(values));
}

class TemporaryFolder {
 public:
  explicit TemporaryFolder(fs::path path) : path_(std::move(path)) {
    fs::remove_all(path_);  // of a run that was killed
    std::error_code error;
    fs::create_directories(path_, error);
    require<IoError>(!error, "cannot make the directory '{}': {}", path_.string(), error.message());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

bool is_token_files(const fs::path& path) {
  std::error_code error;
  return fs::exists(data::dataset_prefix(path).string() + ".idx", error);
}

class Sources {
 public:
  Sources(const BlendRecipe& recipe, const BlendOptions& options, const data::DocumentEncoder* encoder,
          const fs::path& work, Console& console, const std::stop_token& stop)
      : recipe_(recipe), pages_(options.memory / 6) {
    for (std::size_t i = 0; i < recipe.sources.size(); ++i) {
      fs::path prefix = recipe.sources[i].path;
      if (!is_token_files(prefix)) {
        require<ConfigError>(encoder != nullptr,
                             "the source '{}' ('{}') is not a pair of token files; texts need --tokenizer",
                             recipe.sources[i].name, prefix.string());
        data::PrepareOptions prepare;
        for (const data::TextInput& input : find_inputs({prefix})) prepare.inputs.push_back(input.path);
        prepare.output = prefix = work / fmt::format("source-{}", i);
        prepare.workers = options.workers;
        data::prepare(prepare, *encoder, console, stop);
      }
      const auto& set = *sets_.emplace_back(std::make_unique<data::IndexedDataset>(prefix));
      pages_.add(set.bin_bytes());
      pages_.add(set.idx_bytes());
      pages_.release();  // opening reads the whole index
    }
    const auto& first = *sets_.front();
    for (std::size_t i = 1; i < sets_.size(); ++i) {
      const auto &a = first.provenance(), &b = sets_[i]->provenance();
      require<ConfigError>(sets_[i]->dtype() == first.dtype() &&
                               (!a || !b || a->tokenizer_fingerprint == b->tokenizer_fingerprint),
                           "the sources '{}' and '{}' were made with different tokenizers",
                           recipe.sources[0].name, recipe.sources[i].name);
    }
  }
  std::size_t size() const { return sets_.size(); }
  const data::IndexedDataset& operator[](std::size_t i) const { return *sets_[i]; }
  // `next`: of the document after the one that was asked for last.
  std::int64_t tokens(std::size_t source, std::int64_t document, bool next = false) const {
    std::int64_t tokens = 0;
    const auto& set = *sets_[source];
    const std::int64_t begin = set.document_start(document), end = set.document_start(document + 1);
    for (std::int64_t s = begin; s < end; ++s) tokens += set.length(s);
    pages_.count(8 + 12 * static_cast<std::size_t>(end - begin), next ? 0 : 2);
    return tokens;
  }
  std::size_t split_of(std::size_t source, std::int64_t document) const {
    const double at =
        static_cast<double>(draw(recipe_.seed, Draw::kSplit, source, static_cast<std::uint64_t>(document)) >>
                            11) *
        0x1p-53;
    return at < recipe_.train ? 0 : at < recipe_.train + recipe_.validation ? 1 : 2;
  }
  void write(std::size_t source, std::int64_t document, data::IndexedWriter& writer) {
    const auto& set = *sets_[source];
    const std::int64_t begin = set.document_start(document), end = set.document_start(document + 1);
    lengths_.clear();
    for (std::int64_t s = begin; s < end; ++s) lengths_.push_back(set.length(s));
    const std::size_t bytes =
        static_cast<std::size_t>(tokens(source, document)) * data::token_dtype_bytes(set.dtype());
    const auto from = begin < end ? static_cast<std::size_t>(set.byte_offset(begin)) : 0;
    const std::int32_t count = static_cast<std::int32_t>(lengths_.size());
    writer.add_documents(set.bin_bytes().subspan(from, bytes), lengths_, std::span(&count, 1));
    pages_.count(bytes, 2);
  }

 private:
  const BlendRecipe& recipe_;
  std::vector<std::unique_ptr<data::IndexedDataset>> sets_;
  std::vector<std::int32_t> lengths_;
  mutable PageBudget pages_;
};

// Adds what training takes of a source: whole epochs, and of the last one the documents that are drawn first.
void add_training(const BlendRecipe& recipe, const Sources& sources, std::size_t i, BlendedSource& source,
                  const fs::path& folder, std::size_t memory, RecordSorter& order) {
  const auto whole = static_cast<std::uint64_t>(source.share.epochs + 1e-9);
  const auto take = [&](std::uint64_t document, std::uint64_t epoch) {
    order.add({draw(recipe.seed, Draw::kOrder, i, document, epoch),
               static_cast<std::uint64_t>(i) << kSourceShift | document});
    ++source.taken_documents;
    source.taken_tokens += sources.tokens(i, static_cast<std::int64_t>(document));
  };
  fs::create_directories(folder);
  RecordSorter partial(folder, memory);
  for (std::int64_t d = 0; d < sources[i].documents(); ++d) {
    if (sources.split_of(i, d) != 0) continue;
    const auto document = static_cast<std::uint64_t>(d);
    for (std::uint64_t e = 0; e < whole; ++e) take(document, e);
    partial.add({draw(recipe.seed, Draw::kPartialEpoch, i, document), document});
  }
  const double wanted = source.share.tokens;
  bool full = false;
  partial.each([&](const KeyRecord& record) {
    if (full) return;
    const double left = wanted - static_cast<double>(source.taken_tokens),
                 more = static_cast<double>(sources.tokens(i, static_cast<std::int64_t>(record.document)));
    full = more >= left;
    if (more < 2 * left) take(record.document, whole);  // the last one where that comes nearer
  });
}

void check_replay(const fs::path& path, const BlendResult& result) {
  if (path.extension() != ".json") return;
  const auto manifest = nlohmann::json::parse(read_text(path));
  for (std::size_t i = 0; i < result.sources.size(); ++i) {
    const auto& source = manifest.at("sources").at(i);
    require<ConfigError>(
        source.at("checksum") == result.sources[i].checksum,
        "the source '{}' is not what it was when '{}' was written: its checksum was {} and is {}",
        result.sources[i].name, path.string(), source.at("checksum").get<std::string>(),
        result.sources[i].checksum);
  }
}

Json manifest_of(const BlendRecipe& recipe, const BlendResult& result) {
  Json sources = Json::array(), splits = Json::array();
  for (const BlendedSource& s : result.sources)
    sources.push_back(
        {{"name", s.name},
         {"checksum", s.checksum},
         {"documents", s.documents},
         {"tokens", s.tokens},
         {"train_tokens", s.train_tokens},
         {"weight", s.share.weight},
         {"epochs", s.share.epochs},
         {"capped", s.share.capped},
         {"taken_documents", s.taken_documents},
         {"taken_tokens", s.taken_tokens},
         {"effective_tokens", effective_tokens(static_cast<double>(s.train_tokens), s.share.epochs)}});
  for (const auto& split : result.splits)
    splits.push_back({{"name", split.name},
                      {"documents", split.provenance.documents},
                      {"tokens", split.provenance.tokens},
                      {"bin_checksum", split.provenance.bin_checksum},
                      {"idx_checksum", split.provenance.idx_checksum}});
  return {{"format", 1},
          {"recipe", recipe.resolved},
          {"sources", std::move(sources)},
          {"splits", std::move(splits)}};
}

}  // namespace

BlendResult blend(const BlendOptions& options, const data::DocumentEncoder* encoder, Console& console,
                  const std::stop_token& stop) {
  const BlendRecipe recipe = read_recipe(options.recipe);
  const auto prefix_of = [&](std::size_t split) {
    return fs::path(options.output.string() + "-" + kSplits[split]);
  };
  const fs::path manifest = options.output.string() + ".blend.json";
  require<ConfigError>(!fs::exists(manifest), "'{}' exists; choose another --output, or remove it",
                       manifest.string());
  const TemporaryFolder work(options.output.string() + ".work");
  Sources sources(recipe, options, encoder, work.path(), console, stop);
  BlendResult result;
  std::vector<std::int64_t> tokens(sources.size());
  std::array<double, 3> shares = {recipe.train, recipe.validation, recipe.test};
  std::vector<std::unique_ptr<RecordSorter>> orders;
  for (const char* split : kSplits) {
    fs::create_directories(work.path() / split);
    orders.push_back(std::make_unique<RecordSorter>(work.path() / split, options.memory / 6));
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    BlendedSource source;
    source.name = recipe.sources[i].name;
    source.checksum = checksum_text(sources[i].index_checksum());
    source.documents = sources[i].documents();
    source.tokens = sources[i].tokens();
    for (std::int64_t d = 0; d < source.documents; ++d) {
      const std::size_t split = sources.split_of(i, d);
      const auto document = static_cast<std::uint64_t>(d);
      if (split == 0)
        tokens[i] += sources.tokens(i, d, true);
      else
        orders[split]->add({draw(recipe.seed, Draw::kOrder, i, document),
                            static_cast<std::uint64_t>(i) << kSourceShift | document});
    }
    source.train_tokens = tokens[i];
    result.sources.push_back(std::move(source));
  }
  check_replay(options.recipe, result);
  const auto planned = plan_shares(recipe, tokens);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    result.sources[i].share = planned[i];
    add_training(recipe, sources, i, result.sources[i], work.path() / fmt::format("partial-{}", i),
                 options.memory / 6, *orders[0]);
  }
  std::vector<std::unique_ptr<data::IndexedWriter>> writers;
  Progress progress(console, "write", static_cast<double>(kSplits.size()), " splits");
  for (std::size_t split = 0; split < kSplits.size(); ++split) {
    if (shares[split] == 0) continue;
    writers.push_back(std::make_unique<data::IndexedWriter>(prefix_of(split), sources[0].dtype()));
    orders[split]->each([&](const KeyRecord& record) {
      require<Interrupted>(!stop.stop_requested(), "interrupted; nothing was written");
      sources.write(record.document >> kSourceShift,
                    static_cast<std::int64_t>(record.document & ((std::uint64_t{1} << kSourceShift) - 1)),
                    *writers.back());
    });
    orders[split].reset();
    require<DataError>(writers.back()->documents() > 0, "no document fell into the split '{}'",
                       kSplits[split]);
    result.splits.push_back({kSplits[split], {}});
    progress.update(static_cast<double>(split + 1));
  }
  data::Provenance about;
  if (sources[0].provenance()) about = *sources[0].provenance();
  about.sources.clear();
  for (const BlendSource& source : recipe.sources) about.sources.push_back({source.name, 0});
  for (std::size_t w = 0; w < writers.size(); ++w) {
    const fs::path prefix = options.output.string() + "-" + result.splits[w].name;
    writers[w]->commit(about);
    result.splits[w].provenance = *data::load_provenance(prefix);
  }
  progress.finish();
  write_text(manifest, manifest_of(recipe, result).dump(1) + "\n");
  return result;
}

std::string blend_table(const BlendResult& result) {
  std::string text = fmt::format("{:<24} {:>14} {:>8} {:>8} {:>14} {:>16}\n", "source", "tokens", "weight",
                                 "epochs", "taken", "worth as new");
  for (const BlendedSource& s : result.sources)
    text += fmt::format("{:<24} {:>14} {:>8.4f} {:>8.3f} {:>14} {:>16.0f}{}\n", s.name, s.train_tokens,
                        s.share.weight, s.share.epochs, s.taken_tokens,
                        effective_tokens(static_cast<double>(s.train_tokens), s.share.epochs),
                        s.share.capped ? "  at its most" : "");
  for (const auto& split : result.splits)
    text += fmt::format("{}: {} documents, {} tokens\n", split.name, split.provenance.documents,
                        split.provenance.tokens);
  return text;
}

}  // namespace stoa::curate
