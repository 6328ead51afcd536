#include "curate/dedup/fingerprint.h"

#include <xxhash.h>

#include "base/error.h"
#include "config/reader.h"
#include "curate/dedup/minhash.h"
#include "curate/dedup/nemo_minhash.h"

namespace stoa::curate {
namespace {

constexpr const char* kScoreHelp =
    "keep: best: the member of documents that holds their score, a number: the document with the largest "
    "stays. Documents without it come last.";

struct ExactOptions {
  Survivor keep = Survivor::kFirst;
  std::string score;
};
void declare_options(config::Section<ExactOptions>& s) {
  s.field("keep", &ExactOptions::keep).help("Which one of equal documents stays.");
  s.field("score", &ExactOptions::score).help(kScoreHelp);
}

template <class Hash>
struct NearOptions {
  Survivor keep = Survivor::kFirst;
  std::string score;
  Hash hash;
};
template <class Hash>
void declare_options(config::Section<NearOptions<Hash>>& s) {
  s.field("keep", &NearOptions<Hash>::keep).help("Which one of a cluster of near-duplicates stays.");
  s.field("score", &NearOptions<Hash>::score).help(kScoreHelp);
  s.section("", &NearOptions<Hash>::hash, [](config::Section<Hash>& inner) { declare(inner); });
}

class ExactFingerprint final : public Fingerprint {
 public:
  void keys(std::string_view text, std::vector<std::uint64_t>& keys) override {
    keys.push_back(XXH3_64bits(text.data(), text.size()));
  }
};

class MinHashFingerprint final : public Fingerprint {
 public:
  explicit MinHashFingerprint(std::shared_ptr<const MinHash> hash)
      : hash_(std::move(hash)), signer_(*hash_) {}
  void keys(std::string_view text, std::vector<std::uint64_t>& keys) override {
    signer_.band_keys(text, keys);
  }

 private:
  const std::shared_ptr<const MinHash> hash_;
  MinHashSigner signer_;
};

class NemoFingerprint final : public Fingerprint {
 public:
  explicit NemoFingerprint(std::shared_ptr<const NemoMinHash> hash) : hash_(std::move(hash)) {}
  void keys(std::string_view text, std::vector<std::uint64_t>& keys) override {
    hash_->band_keys(text, keys);
  }

 private:
  const std::shared_ptr<const NemoMinHash> hash_;
};

std::function<std::unique_ptr<Fingerprint>()> maker(const ExactOptions&) {
  return [] { return std::make_unique<ExactFingerprint>(); };
}
std::function<std::unique_ptr<Fingerprint>()> maker(const NearOptions<MinHashOptions>& options) {
  auto hash = std::make_shared<const MinHash>(options.hash);
  return [hash] { return std::make_unique<MinHashFingerprint>(hash); };
}
std::function<std::unique_ptr<Fingerprint>()> maker(const NearOptions<NemoMinHashOptions>& options) {
  auto hash = std::make_shared<const NemoMinHash>(options.hash);
  return [hash] { return std::make_unique<NemoFingerprint>(hash); };
}

template <class Options>
DeduplicationKind dedup_kind_of(std::string_view name, std::string_view help) {
  config::Section<Options> section;
  declare_options(section);
  const Options defaults;
  DeduplicationKind kind{name, help, section.schema(), section.schema().print(&defaults), {}};
  kind.make = [section, name](const config::Node& keys, config::Node& resolved) {
    Options options;
    config::read_object(section.schema(), keys.is_null() ? config::Node::map() : keys, &options, {});
    resolved = section.schema().print(&options);
    require<ConfigError>((options.keep == Survivor::kBest) == !options.score.empty(),
                         "`keep: best` and `score: MEMBER` belong together");
    return Deduplication{std::string(name), options.keep, options.score, maker(options)};
  };
  return kind;
}

}  // namespace

std::span<const DeduplicationKind> deduplication_kinds() {
  static const std::vector<DeduplicationKind> kinds = {
      dedup_kind_of<ExactOptions>("exact", "Documents with the same text"),
      dedup_kind_of<NearOptions<MinHashOptions>>("minhash",
                                                 "Near-duplicates by MinHash (datatrove's hashes)"),
      dedup_kind_of<NearOptions<NemoMinHashOptions>>("nemo_minhash",
                                                     "Near-duplicates by MinHash (NeMo Curator's hashes)"),
  };
  return kinds;
}

}  // namespace stoa::curate
