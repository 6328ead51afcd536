// A model for tests of what is around it: its cache holds tokens instead of keys and values, and its logits
// are a function of all tokens of a sequence, read back through its blocks; of a source too, if it has one.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "infer/engine/pass_plan.h"

namespace stoa::infer {

constexpr PassLimits kSmallLimits{.block_tokens = 4,
                                  .blocks = 24,
                                  .context = 64,
                                  .pass_tokens = 16,
                                  .sequences = 6,
                                  .scored = 6,
                                  .vocabulary = 50};

class SimulatedModel : public PassModel {
 public:
  explicit SimulatedModel(const PassLimits& limits)
      : limits_(limits),
        cache_(static_cast<std::size_t>(limits.blocks * limits.block_tokens), -1),
        marks_(cache_.size()) {}

  const PassLimits& limits() const override { return limits_; }

  // Pseudo-random numbers that depend on every token and its place.
  static void logits_of(std::span<const std::int32_t> tokens, std::span<float> out) {
    std::uint64_t h = 1;
    for (const std::int32_t token : tokens) h = mix(h ^ static_cast<std::uint32_t>(token));
    for (float& x : out) x = static_cast<float>((h = mix(h)) >> 40) * 0x1p-22f;
  }

  // -ln of the label's share in the softmax of logits_of(tokens).
  static float loss_of(std::span<const std::int32_t> tokens, std::int32_t label, std::int64_t vocabulary) {
    std::vector<float> logits(static_cast<std::size_t>(vocabulary));
    logits_of(tokens, logits);
    double sum = 0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x));
    return static_cast<float>(std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(label)]));
  }

  std::span<const float> run(const PassPlan& plan) override {
    EXPECT_LE(plan.scored, limits_.scored);
    write(plan);
    logits_.resize(static_cast<std::size_t>(plan.scored * limits_.vocabulary));
    std::size_t row = 0;
    for (const PassSegment& s : plan.segments) {
      const std::int64_t end = s.begin + std::ssize(s.tokens);
      const std::vector<std::int32_t> read = text_of(s);
      for (std::int64_t i = end - s.scored; i < end; ++i, ++row)
        logits_of(std::span(read).first(static_cast<std::size_t>(s.source_length + i) + 1),
                  std::span(logits_).subspan(row * static_cast<std::size_t>(limits_.vocabulary),
                                             static_cast<std::size_t>(limits_.vocabulary)));
    }
    return logits_;
  }
  std::span<const float> losses(const PassPlan& plan, std::span<const std::int32_t> labels) override {
    write(plan);
    losses_.clear();
    for (const PassSegment& s : plan.segments) {
      const std::vector<std::int32_t> read = text_of(s);
      for (std::int64_t i = s.source_length + s.begin; i < std::ssize(read); ++i)
        losses_.push_back(loss_of(std::span(read).first(static_cast<std::size_t>(i) + 1),
                                  labels[losses_.size()], limits_.vocabulary));
    }
    return losses_;
  }
  void share_out(std::int64_t tasks, const std::function<void(std::int64_t)>& body) override {
    for (std::int64_t i = 0; i < tasks; ++i) body(i);
  }

 private:
  // Puts the pass's tokens into the cache.
  void write(const PassPlan& plan) {
    EXPECT_LE(plan.tokens, limits_.most_tokens());
    EXPECT_LE(plan.tokens - plan.sources, limits_.pass_tokens);
    EXPECT_LE(std::ssize(plan.segments), limits_.sequences);
    const std::int64_t size = limits_.block_tokens;
    for (const auto& [from, to] : plan.copies)
      for (std::int64_t i = 0; i < size; ++i) {
        slot(to, i) = slot(from, i);
        marks_[place(to, i)] = marks_[place(from, i)];
      }
    for (const PassSegment& s : plan.segments)
      for (std::int64_t i = 0; i < std::ssize(s.source); ++i)
        slot(s.source_blocks[static_cast<std::size_t>(i / size)], i % size) =
            s.source[static_cast<std::size_t>(i)];
    for (const PassSegment& s : plan.segments) {
      const std::uint64_t mark = mark_of(read(s.source_blocks, s.source_length));
      for (std::int64_t i = 0; i < std::ssize(s.tokens); ++i) {
        const BlockId block = s.blocks[static_cast<std::size_t>((s.begin + i) / size)];
        slot(block, (s.begin + i) % size) = s.tokens[static_cast<std::size_t>(i)];
        marks_[place(block, (s.begin + i) % size)] = mark;
      }
    }
  }
  // The tokens of a segment's sequence up to the last of the pass, behind those of its source, read back.
  std::vector<std::int32_t> text_of(const PassSegment& s) {
    std::vector<std::int32_t> out = read(s.source_blocks, s.source_length);
    const std::int64_t end = s.begin + std::ssize(s.tokens);
    // What is computed of a target depends on its source.
    const std::uint64_t mark = mark_of(out);
    for (std::int64_t i = 0; i < end; ++i)
      EXPECT_EQ(marks_[place(s.blocks[static_cast<std::size_t>(i / limits_.block_tokens)],
                             i % limits_.block_tokens)],
                mark);
    const std::vector<std::int32_t> own = read(s.blocks, end);
    out.insert(out.end(), own.begin(), own.end());
    return out;
  }
  std::vector<std::int32_t> read(std::span<const BlockId> blocks, std::int64_t count) {
    std::vector<std::int32_t> out;
    for (std::int64_t i = 0; i < count; ++i)
      out.push_back(
          slot(blocks[static_cast<std::size_t>(i / limits_.block_tokens)], i % limits_.block_tokens));
    return out;
  }
  static std::uint64_t mark_of(std::span<const std::int32_t> source) {
    std::uint64_t h = 2;
    for (const std::int32_t token : source) h = mix(h ^ static_cast<std::uint32_t>(token));
    return h;
  }
  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15u;
    return x ^ (x >> 29);
  }
  std::int32_t& slot(BlockId block, std::int64_t i) { return cache_[place(block, i)]; }
  std::size_t place(BlockId block, std::int64_t i) const {
    return static_cast<std::size_t>(block * limits_.block_tokens + i);
  }

  const PassLimits limits_;
  std::vector<std::int32_t> cache_;
  std::vector<std::uint64_t> marks_;  // of the sources for which tokens of targets were computed
  std::vector<float> logits_, losses_;
};

}  // namespace stoa::infer
