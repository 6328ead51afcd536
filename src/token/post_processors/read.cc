// ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing and sequences of them.
#include <algorithm>

#include "token/post_processors/post_processor.h"
#include "token/unicode.h"

namespace stoa::token {
namespace {

// "Ġ" and white space at the ends of a token are not of its word.
class TrimOffsets final : public PostProcessor {
 public:
  explicit TrimOffsets(bool add_prefix_space) : add_prefix_space_(add_prefix_space) {}

  void apply(std::vector<EncodedToken>& tokens, bool) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const char *begin = tokens[i].text.data(), *end = begin + tokens[i].text.size();
      std::uint32_t leading = 0, trailing = 0;
      for (const char* p = begin; p < end; ++leading) {
        const CodePoint c = read_utf8(p, end);
        if (!is_blank(c)) break;
        p += c.length;
      }
      for (const char* p = end; p > begin; ++trailing) {
        const CodePoint c = read_utf8_before(begin, p);
        if (!is_blank(c)) break;
        p -= c.length;
      }
      TextSpan& offsets = tokens[i].offsets;
      // The blank that add_prefix_space put in front is not of the text.
      if (leading == 1 && add_prefix_space_ && (i == 0 || offsets.begin == 0)) leading = 0;
      if (leading > 0) offsets.begin = std::min(offsets.begin + leading, offsets.end);
      if (trailing > 0 && offsets.end >= trailing)
        offsets.end = std::max(offsets.end - trailing, offsets.begin);
    }
  }

 private:
  bool is_blank(CodePoint c) const { return c.value == 0x120 || classes_.is_space(c); }
  const UnicodeClasses classes_;
  const bool add_prefix_space_;
};

// Tokens around texts, which stand as kFirst and kSecond. A template may hold a text more than once.
using Template = std::vector<TokenId>;
constexpr TokenId kFirst = -1, kSecond = -2;

class Surround final : public PostProcessor {
 public:
  Surround(Template single, Template pair) : single_(std::move(single)), pair_(std::move(pair)) {}

  void apply(std::vector<EncodedToken>& tokens, bool add_special) const override {
    std::vector<EncodedToken> out;
    out.reserve(tokens.size() + single_.size());
    for (const TokenId token : single_) {
      if (token < 0)
        out.insert(out.end(), tokens.begin(), tokens.end());
      else if (add_special)
        out.push_back({token, {0, 0}, {}});
    }
    tokens.swap(out);
  }

  std::optional<PairSurroundings> pair() const override {
    const auto first = std::find(pair_.begin(), pair_.end(), kFirst), end = pair_.end();
    const auto second = std::find(first, end, kSecond);
    const auto is_text = [](TokenId token) { return token < 0; };
    if (std::count_if(pair_.begin(), end, is_text) != 2 || second == end) return {};
    return PairSurroundings{{pair_.begin(), first}, {first + 1, second}, {second + 1, end}};
  }

 private:
  const Template single_, pair_;
};

class PostProcessorSequence final : public PostProcessor {
 public:
  explicit PostProcessorSequence(std::vector<std::unique_ptr<const PostProcessor>> parts)
      : parts_(std::move(parts)) {}
  void apply(std::vector<EncodedToken>& tokens, bool add_special) const override {
    for (const auto& part : parts_) part->apply(tokens, add_special);
  }
  std::optional<PairSurroundings> pair() const override {
    for (const auto& part : parts_)
      if (auto found = part->pair()) return found;
    return {};
  }

 private:
  const std::vector<std::unique_ptr<const PostProcessor>> parts_;
};

Template read_template(json::object o, json::element list, const std::string& where, std::size_t entries) {
  Template out;
  for (const json::element e : array_of(list, where)) {
    const json::object part = object_of(e, where);
    if (const auto sequence = member(part, "Sequence")) {
      const std::string id = text_member(object_of(*sequence, "Sequence"), "id", "A", "Sequence");
      require<DataError>(id == "A" || id == "B", "{}: a Sequence is A or B, not '{}'", where, id);
      out.push_back(id == "A" ? kFirst : kSecond);
      continue;
    }
    const auto special = member(part, "SpecialToken");
    require<DataError>(special.has_value(), "{} holds neither Sequence nor SpecialToken", where);
    const std::string token = text_member(object_of(*special, "SpecialToken"), "id", "SpecialToken");
    json::element entry;
    const auto table = member(o, "special_tokens");
    require<DataError>(table && !object_of(*table, "special_tokens").at_key(token).get(entry),
                       "post_processor.special_tokens has no ids for '{}'", token);
    const json::array ids =
        array_of(required(object_of(entry, "special_tokens"), "ids", "special_tokens"), "special_tokens.ids");
    for (const json::element id : ids) out.push_back(token_id(id, entries, "post_processor"));
  }
  return out;
}

std::unique_ptr<const PostProcessor> read_template_processing(json::object o, std::size_t entries) {
  only_keys(o, {"type", "single", "pair", "special_tokens"}, "post_processor TemplateProcessing");
  Template single =
      read_template(o, required(o, "single", "post_processor"), "post_processor.single", entries);
  require<DataError>(std::find(single.begin(), single.end(), kSecond) == single.end(),
                     "post_processor.single holds the second text of a pair: 'B'");
  Template pair;
  if (const auto e = member(o, "pair")) pair = read_template(o, *e, "post_processor.pair", entries);
  return std::make_unique<Surround>(std::move(single), std::move(pair));
}

constexpr int kDeepestProcessors = 16;  // sequences within sequences

std::unique_ptr<const PostProcessor> read_one_post_processor(json::object o, std::size_t entries, int depth) {
  const std::string type = type_of(o, "post_processor");
  const std::string where = "post_processor " + type;
  std::vector<std::unique_ptr<const PostProcessor>> parts;
  if (type == "Sequence") {
    require<DataError>(depth < kDeepestProcessors, "post_processor: sequences are nested {} deep",
                       kDeepestProcessors);
    only_keys(o, {"type", "processors"}, where);
    for (const json::element e : array_of(required(o, "processors", where), "post_processor.processors"))
      parts.push_back(read_one_post_processor(object_of(e, "post_processor.processors"), entries, depth + 1));
    return std::make_unique<PostProcessorSequence>(std::move(parts));
  }
  if (type == "TemplateProcessing") return read_template_processing(o, entries);
  if (type == "ByteLevel") {
    only_keys(o, {"type", "add_prefix_space", "trim_offsets", "use_regex"}, where);
    if (flag(o, "trim_offsets", true, where))
      parts.push_back(std::make_unique<TrimOffsets>(flag(o, "add_prefix_space", true, where)));
    return std::make_unique<PostProcessorSequence>(std::move(parts));
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    only_keys(o, {"type", "sep", "cls", "trim_offsets", "add_prefix_space"}, where);
    const auto id = [&](const char* key) {
      const json::array pair = array_of(required(o, key, where), fmt::format("{}.{}", where, key));
      require<DataError>(pair.size() == 2, "{}.{} must be [token, id]", where, key);
      return token_id(pair.at(1).value(), entries, "post_processor");
    };
    if (type == "RobertaProcessing" && flag(o, "trim_offsets", true, where))
      parts.push_back(std::make_unique<TrimOffsets>(flag(o, "add_prefix_space", true, where)));
    const TokenId cls = id("cls"), sep = id("sep");
    Template pair{cls, kFirst, sep, kSecond, sep};
    if (type == "RobertaProcessing") pair.insert(pair.begin() + 2, sep);
    parts.push_back(std::make_unique<Surround>(Template{cls, kFirst, sep}, std::move(pair)));
    return std::make_unique<PostProcessorSequence>(std::move(parts));
  }
  fail<DataError>(
      "post_processor {} is not one of BertProcessing, ByteLevel, RobertaProcessing, Sequence, "
      "TemplateProcessing",
      type);
}

}  // namespace

std::unique_ptr<const PostProcessor> read_post_processor(json::object o, std::size_t entries) {
  return read_one_post_processor(o, entries, 0);
}

}  // namespace stoa::token
