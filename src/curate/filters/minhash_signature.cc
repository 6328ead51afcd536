#include "curate/filters/minhash_signature.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

#include "curate/io/json_document.h"

namespace stoa::curate {
namespace {

class MinHashSignatureStage final : public Stage {
 public:
  explicit MinHashSignatureStage(const MinHashSignature& options)
      : member_(options.member), hash_(options.hash) {}

  void apply(Document& document, Features&, Verdict&) const override {
    MinHashSigner signer(hash_);
    std::string value = "\"";
    for (const std::uint64_t hash : signer.sign(document.text))
      fmt::format_to(std::back_inserter(value), "{:016x}", hash);
    set_member(member_, value + '"', document.metadata);
  }

 private:
  const std::string member_;
  const MinHash hash_;
};

}  // namespace

void declare(config::Section<MinHashSignature>& s) {
  s.field("member", &MinHashSignature::member)
      .not_empty()
      .help("Key under which the signature is written: its hashes in order, 16 hexadecimal digits each.");
  s.section("", &MinHashSignature::hash, [](config::Section<MinHashOptions>& inner) { declare(inner); });
}

std::unique_ptr<Stage> make_stage(const MinHashSignature& options) {
  return std::make_unique<MinHashSignatureStage>(options);
}

}  // namespace stoa::curate
