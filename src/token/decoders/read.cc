// Decoders from their JSON.
#include "token/decoders/bytes.h"
#include "token/decoders/decoder.h"
#include "token/decoders/words.h"

namespace stoa::token {
namespace {

class DecoderSequence final : public Decoder {
 public:
  explicit DecoderSequence(std::vector<std::unique_ptr<const Decoder>> parts) : parts_(std::move(parts)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (const auto& part : parts_) part->apply(tokens);
  }

 private:
  const std::vector<std::unique_ptr<const Decoder>> parts_;
};

constexpr int kDeepestDecoders = 16;  // sequences within sequences

std::unique_ptr<const Decoder> read_one_decoder(json::object o, int depth) {
  const std::string type = type_of(o, "decoder");
  const std::string where = "decoder " + type;
  if (type == "Sequence") {
    require<DataError>(depth < kDeepestDecoders, "decoder: sequences are nested {} deep", kDeepestDecoders);
    only_keys(o, {"type", "decoders"}, where);
    std::vector<std::unique_ptr<const Decoder>> parts;
    for (const json::element e : array_of(required(o, "decoders", where), "decoder.decoders"))
      parts.push_back(read_one_decoder(object_of(e, "decoder.decoders"), depth + 1));
    return std::make_unique<DecoderSequence>(std::move(parts));
  }
  if (type == "ByteLevel") {
    only_keys(o, {"type", "add_prefix_space", "trim_offsets", "use_regex"}, where);
    return std::make_unique<ByteLevelDecoder>();
  }
  if (type == "WordPiece") {
    only_keys(o, {"type", "prefix", "cleanup"}, where);
    return std::make_unique<WordPieceDecoder>(text_member(o, "prefix", "##", where),
                                              flag(o, "cleanup", true, where));
  }
  if (type == "Metaspace") {
    only_keys(o, {"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"}, where);
    return std::make_unique<MetaspaceDecoder>(character_member(o, "replacement", U'\u2581', where),
                                              read_prepend_scheme(o, where));
  }
  if (type == "BPEDecoder") {
    only_keys(o, {"type", "suffix"}, where);
    return std::make_unique<SuffixDecoder>(text_member(o, "suffix", "</w>", where));
  }
  if (type == "CTC") {
    only_keys(o, {"type", "pad_token", "word_delimiter_token", "cleanup"}, where);
    return std::make_unique<CtcDecoder>(text_member(o, "pad_token", "<pad>", where),
                                        text_member(o, "word_delimiter_token", "|", where),
                                        flag(o, "cleanup", true, where));
  }
  if (type == "Replace") {
    only_keys(o, {"type", "pattern", "content"}, where);
    return std::make_unique<ReplaceDecoder>(
        TextPattern::read(object_of(required(o, "pattern", where), where + ".pattern"), where + ".pattern"),
        text_member(o, "content", where));
  }
  if (type == "Strip") {
    only_keys(o, {"type", "content", "start", "stop"}, where);
    return std::make_unique<StripDecoder>(character_member(o, "content", U' ', where),
                                          count_member(o, "start", 0, 1u << 30, where),
                                          count_member(o, "stop", 0, 1u << 30, where));
  }
  if (type == "ByteFallback" || type == "Fuse") {
    only_keys(o, {"type"}, where);
    if (type == "Fuse") return std::make_unique<FuseDecoder>();
    return std::make_unique<ByteFallbackDecoder>();
  }
  fail<DataError>(
      "decoder {} is not one of BPEDecoder, ByteFallback, ByteLevel, CTC, Fuse, Metaspace, Replace, "
      "Sequence, Strip, "
      "WordPiece",
      type);
}

}  // namespace

std::unique_ptr<const Decoder> read_decoder(json::object o) { return read_one_decoder(o, 0); }

}  // namespace stoa::token
