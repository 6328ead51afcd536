#include "token/pipeline/pipeline.h"

#include <limits>

namespace stoa::token {

PipelineParts PipelineParts::read(json::object root) {
  PipelineParts parts;
  parts.tables = std::make_shared<const CharacterTables>();
  if (const auto e = member(root, "normalizer"))
    parts.normalizer = read_normalizer(object_of(*e, "normalizer"), parts.tables);
  if (const auto e = member(root, "pre_tokenizer"))
    parts.pre_tokenizer = read_pre_tokenizer(object_of(*e, "pre_tokenizer"), parts.tables);
  if (const auto e = member(root, "decoder")) parts.decoder = read_decoder(object_of(*e, "decoder"));
  return parts;
}

Pipeline::Pipeline(PipelineParts parts, std::unique_ptr<const Model> model,
                   std::unique_ptr<const PostProcessor> post_processor, std::string identity)
    : parts_(std::move(parts)),
      model_(std::move(model)),
      post_processor_(std::move(post_processor)),
      identity_(std::move(identity)) {}

std::string Pipeline::normalized(std::string_view utf8) const {
  AlignedText text(utf8, 0);
  RegexScratch scratch;
  if (parts_.normalizer) parts_.normalizer->apply(text, scratch);
  return std::string(text.text());
}

std::string Pipeline::decoded(std::vector<std::string> tokens) const {
  if (tokens.empty()) return {};
  if (parts_.decoder) parts_.decoder->apply(tokens);
  std::string out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!parts_.decoder && i > 0) out.push_back(' ');
    out += tokens[i];
  }
  return out;
}

const Pieces& PipelineText::cut(std::string_view utf8, bool plain) {
  require<DataError>(utf8.size() < std::numeric_limits<std::uint32_t>::max() / 4,
                     "a text of {} bytes is too long for this tokenizer", utf8.size());
  const PipelineParts& parts = pipeline_->parts();
  const UnicodeClasses& classes = parts.tables->classes;
  pieces_.clear();
  const auto append = [&](std::string_view text, std::span<const TextSpan> spans, TokenId token) {
    if (text.empty()) return;
    const auto begin = static_cast<std::uint32_t>(pieces_.text.size());
    pieces_.text.append(text);
    pieces_.spans.insert(pieces_.spans.end(), spans.begin(), spans.end());
    pieces_.list.push_back(
        {begin, static_cast<std::uint32_t>(pieces_.text.size()), spans.front().begin, token});
  };
  found_.clear();
  raw_->cut(utf8, plain, classes, found_);
  for (const auto& piece : found_) {
    AlignedText text(piece.text, static_cast<std::uint32_t>(piece.text.data() - utf8.data()));
    if (piece.id >= 0) {
      append(text.text(), text.spans(), piece.id);
      continue;
    }
    if (parts.normalizer) parts.normalizer->apply(text, scratch_.regex);
    inner_.clear();
    normalized_->cut(text.text(), plain, classes, inner_);
    for (const auto& part : inner_)
      append(part.text,
             text.spans().subspan(static_cast<std::size_t>(part.text.data() - text.text().data()),
                                  part.text.size()),
             part.id);
  }
  if (parts.pre_tokenizer) parts.pre_tokenizer->apply(pieces_, scratch_);
  return pieces_;
}

void PipelineText::encode(std::string_view utf8, bool plain, std::vector<EncodedToken>& out) {
  cut(utf8, plain);
  std::vector<std::uint32_t> character_of(utf8.size());
  std::uint32_t characters = 0;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    if ((static_cast<std::uint8_t>(utf8[i]) & 0xC0) != 0x80) ++characters;
    character_of[i] = characters - 1;
  }
  const auto in_characters = [&](TextSpan span) -> TextSpan {
    if (span.begin >= character_of.size()) return span;
    const std::uint32_t begin = character_of[span.begin];
    if (span.end < character_of.size()) return {begin, character_of[span.end]};
    const std::size_t last = span.end - std::size_t{1};
    return {begin, (last < character_of.size() ? character_of[last] : begin) + 1};
  };
  for (const Piece& piece : pieces_.list) {
    const std::string_view text = pieces_.of(piece);
    tokens_.clear();
    if (piece.token >= 0)
      tokens_.push_back({piece.token, 0, piece.end - piece.begin, text});
    else
      pipeline_->model().encode(text, model_scratch_, tokens_);
    for (const ModelToken& t : tokens_) {
      TextSpan span{t.begin, t.end};
      if (t.begin == t.end)
        span = {piece.origin + t.begin, piece.origin + t.end};
      else if (t.end <= text.size())
        span = {pieces_.spans[piece.begin + t.begin].begin, pieces_.spans[piece.begin + t.end - 1].end};
      out.push_back({t.id, in_characters(span), t.text});
    }
  }
}

}  // namespace stoa::token
