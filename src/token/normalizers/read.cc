// Normalizers from their JSON.
#include <array>

#include "token/normalizers/edits.h"
#include "token/normalizers/letters.h"
#include "token/normalizers/normalizer.h"
#include "token/normalizers/precompiled.h"
#include "token/normalizers/unicode_form.h"

namespace stoa::token {
namespace {

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<const Normalizer>> parts)
      : parts_(std::move(parts)) {}
  void apply(AlignedText& text, RegexScratch& scratch) const override {
    for (const auto& part : parts_) part->apply(text, scratch);
  }

 private:
  const std::vector<std::unique_ptr<const Normalizer>> parts_;
};

constexpr int kDeepest = 16;  // sequences within sequences

std::unique_ptr<const Normalizer> read_one_normalizer(json::object o, const Tables& tables, int depth) {
  const std::string type = type_of(o, "normalizer");
  const std::string where = "normalizer " + type;
  if (type == "Sequence") {
    require<DataError>(depth < kDeepest, "normalizer: sequences are nested {} deep", kDeepest);
    only_keys(o, {"type", "normalizers"}, where);
    std::vector<std::unique_ptr<const Normalizer>> parts;
    for (const json::element e : array_of(required(o, "normalizers", where), "normalizer.normalizers"))
      parts.push_back(read_one_normalizer(object_of(e, "normalizer.normalizers"), tables, depth + 1));
    return std::make_unique<NormalizerSequence>(std::move(parts));
  }
  if (type == "BertNormalizer") {
    only_keys(o, {"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"}, where);
    BertNormalizer::Options options{.clean_text = flag(o, "clean_text", true, where),
                                    .handle_chinese_chars = flag(o, "handle_chinese_chars", true, where),
                                    .strip_accents = std::nullopt,
                                    .lowercase = flag(o, "lowercase", true, where)};
    if (member(o, "strip_accents")) options.strip_accents = flag(o, "strip_accents", true, where);
    return std::make_unique<BertNormalizer>(options, tables);
  }
  static constexpr std::array<std::pair<std::string_view, UnicodeFormOptions>, 4> kForms{
      {{"NFC", {true, false}}, {"NFD", {false, false}}, {"NFKC", {true, true}}, {"NFKD", {false, true}}}};
  for (const auto& [name, form] : kForms) {
    if (type != name) continue;
    only_keys(o, {"type"}, where);
    return std::make_unique<UnicodeForm>(form, tables);
  }
  if (type == "Strip") {
    only_keys(o, {"type", "strip_left", "strip_right"}, where);
    return std::make_unique<StripBlanks>(flag(o, "strip_left", true, where),
                                         flag(o, "strip_right", true, where), tables);
  }
  if (type == "Prepend") {
    only_keys(o, {"type", "prepend"}, where);
    return std::make_unique<Prepend>(text_member(o, "prepend", where));
  }
  if (type == "Replace") {
    only_keys(o, {"type", "pattern", "content"}, where);
    return std::make_unique<Replace>(
        TextPattern::read(object_of(required(o, "pattern", where), where + ".pattern"), where + ".pattern"),
        text_member(o, "content", where));
  }
  if (type == "Precompiled") {
    only_keys(o, {"type", "precompiled_charsmap"}, where);
    const std::string charsmap = text_member(o, "precompiled_charsmap", where);
    return std::make_unique<Precompiled>(decode_base64(charsmap, "precompiled_charsmap"), tables);
  }
  if (type == "Lowercase" || type == "StripAccents" || type == "Nmt" || type == "ByteLevel") {
    only_keys(o, {"type"}, where);
    if (type == "Lowercase") return std::make_unique<Lowercase>(tables);
    if (type == "StripAccents") return std::make_unique<StripAccents>(tables);
    if (type == "Nmt") return std::make_unique<Nmt>();
    return std::make_unique<ByteAlphabetNormalizer>();
  }
  fail<DataError>(
      "normalizer {} is not one of BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, "
      "Precompiled, "
      "Prepend, Replace, Sequence, Strip, StripAccents",
      type);
}

}  // namespace

std::unique_ptr<const Normalizer> read_normalizer(json::object o, const Tables& tables) {
  return read_one_normalizer(o, tables, 0);
}

}  // namespace stoa::token
