#include "infer/engine/rank_message.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace stoa::infer {
namespace {

// Words of the first transfer, whose size all ranks know: enough for most passes that write answers.
constexpr std::size_t kFirst = 1024;

TensorView words_view(std::span<std::int32_t> words) {
  return TensorView(words.data(), DType::kI32, {std::ssize(words)});
}

}  // namespace

void RankMessage::put(std::int64_t number) {
  words_.push_back(static_cast<std::int32_t>(number & 0xffffffff));
  words_.push_back(static_cast<std::int32_t>(number >> 32));
}

void RankMessage::put(std::span<const std::int32_t> list) {
  put(std::ssize(list));
  words_.insert(words_.end(), list.begin(), list.end());
}

void RankMessage::put(const std::string& text) {
  put(std::ssize(text));
  const std::size_t begin = words_.size();
  words_.resize(begin + (text.size() + 3) / 4);
  std::memcpy(words_.data() + begin, text.data(), text.size());
}

std::span<const std::int32_t> RankMessage::take(std::size_t words) {
  require<InternalError>(words <= words_.size() - read_, "a message of {} words ends early", words_.size());
  const std::span<const std::int32_t> out(words_.data() + read_, words);
  read_ += words;
  return out;
}

std::int64_t RankMessage::number() {
  const auto words = take(2);
  return static_cast<std::int64_t>(words[1]) << 32 | static_cast<std::uint32_t>(words[0]);
}

std::span<const std::int32_t> RankMessage::list() { return take(static_cast<std::size_t>(number())); }

std::string RankMessage::text() {
  std::string out(static_cast<std::size_t>(number()), '\0');
  std::memcpy(out.data(), take((out.size() + 3) / 4).data(), out.size());
  return out;
}

void RankMessage::broadcast(comm::Communicator& group, Stream& stream, int sender) {
  std::vector<std::int32_t> first(kFirst);
  const auto send = [&](std::span<std::int32_t> words) {
    group.broadcast(words_view(words), sender, stream)->wait();
  };
  if (group.rank() == sender) {
    first[0] = static_cast<std::int32_t>(words_.size());
    std::copy_n(words_.begin(), std::min(words_.size(), kFirst - 1), first.begin() + 1);
  }
  send(first);
  if (group.rank() != sender) {
    words_.resize(static_cast<std::size_t>(first[0]));
    std::copy_n(first.begin() + 1, std::min(words_.size(), kFirst - 1), words_.begin());
    read_ = 0;
  }
  if (words_.size() > kFirst - 1) send(std::span(words_).subspan(kFirst - 1));
}

void put(RankMessage& message, const PassLimits& l) {
  for (const std::int64_t number :
       {l.block_tokens, l.blocks, l.context, l.pass_tokens, l.sequences, l.scored, l.vocabulary,
        std::int64_t{l.shares}, std::int64_t{l.takes_back}, static_cast<std::int64_t>(l.left_behind),
        l.source_tokens, std::int64_t{l.start}, l.virtual_tokens,
        static_cast<std::int64_t>(l.adapters.size())})
    message.put(number);
  for (const std::int64_t tokens : l.adapters) message.put(tokens);
}

PassLimits limits_of(RankMessage& message) {
  PassLimits l;
  for (std::int64_t* number :
       {&l.block_tokens, &l.blocks, &l.context, &l.pass_tokens, &l.sequences, &l.scored, &l.vocabulary})
    *number = message.number();
  l.shares = message.number() != 0;
  l.takes_back = message.number() != 0;
  l.left_behind = static_cast<LeftBehind>(message.number());
  l.source_tokens = message.number();
  l.start = static_cast<std::int32_t>(message.number());
  l.virtual_tokens = message.number();
  l.adapters.resize(static_cast<std::size_t>(message.number()));
  for (std::int64_t& tokens : l.adapters) tokens = message.number();
  return l;
}

void put(RankMessage& message, const PassPlan& plan) {
  std::vector<std::int32_t> copies;
  for (const auto& [from, to] : plan.copies) copies.insert(copies.end(), {from, to});
  message.put(copies);
  message.put(std::ssize(plan.segments));
  const bool sources = std::ranges::any_of(plan.segments, &PassSegment::source_length);
  message.put(std::int64_t{sources});
  for (const PassSegment& s : plan.segments) {
    for (const std::int64_t number :
         {s.sequence, std::int64_t{s.adapter}, s.begin, s.length, s.scored, std::int64_t{s.last}})
      message.put(number);
    message.put(s.tokens);
    message.put(s.blocks);
    if (!sources) continue;
    message.put(s.source);
    message.put(s.source_length);
    message.put(s.source_blocks);
  }
}

PassPlan plan_of(RankMessage& message) {
  PassPlan plan;
  const auto copies = message.list();
  for (std::size_t i = 0; i + 1 < copies.size(); i += 2) plan.copies.emplace_back(copies[i], copies[i + 1]);
  plan.segments.resize(static_cast<std::size_t>(message.number()));
  const bool sources = message.number() != 0;
  for (PassSegment& s : plan.segments) {
    s.sequence = message.number();
    s.adapter = static_cast<int>(message.number());
    for (std::int64_t* number : {&s.begin, &s.length, &s.scored}) *number = message.number();
    s.last = message.number() != 0;
    s.tokens = message.list();
    s.blocks = message.list();
    if (sources) {
      s.source = message.list();
      s.source_length = message.number();
      s.source_blocks = message.list();
    }
    plan.tokens += std::ssize(s.tokens) + std::ssize(s.source);
    plan.sources += std::ssize(s.source);
    plan.scored += s.scored;
  }
  return plan;
}

}  // namespace stoa::infer
