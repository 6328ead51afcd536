#include "infer/engine/encoder_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <numeric>
#include <thread>

#include "base/error.h"

namespace stoa::infer {
namespace {

constexpr std::int64_t kLongestText = 100, kTokensOfPass = 64;

// An encoder whose vectors are the sum of a text and its length. The first pass waits until it is let go.
class SummingEncoder {
 public:
  SummingEncoder()
      : loop_(
            kLongestText, kTokensOfPass, [this] { began_ = std::this_thread::get_id(); },
            [this](auto tokens, auto lengths, const auto& emit) {
              EXPECT_EQ(began_, std::this_thread::get_id());
              if (passes_.empty()) go_.get_future().wait();
              std::size_t begin = 0;
              for (const std::int64_t length : lengths) {
                const auto text = tokens.subspan(begin, static_cast<std::size_t>(length));
                begin += text.size();
                if (std::ranges::find(text, -1) != text.end()) fail<NumericsError>("a state is not a number");
                const std::vector<double> out{std::accumulate(text.begin(), text.end(), 0.0),
                                              static_cast<double>(length)};
                emit(out);
              }
              passes_.push_back({lengths.begin(), lengths.end()});
            }) {}

  std::future<std::vector<std::vector<double>>> ask(std::vector<std::vector<std::int32_t>> texts,
                                                    const std::string& tenant = {}) {
    const auto promise = std::make_shared<std::promise<std::vector<std::vector<double>>>>();
    const std::size_t number = ids_.size();
    const auto done = [=, this](auto vectors, const std::exception_ptr& error) {
      ended_.push_back(number);
      error ? promise->set_exception(error) : promise->set_value(std::move(vectors));
    };
    ids_.push_back(loop_.submit(std::move(texts), done, tenant));
    return promise->get_future();
  }
  void go() { go_.set_value(); }
  EncoderLoop& loop() { return loop_; }
  std::int64_t last_id() const { return ids_.back(); }
  const std::vector<std::vector<std::int64_t>>& passes() const { return passes_; }
  const std::vector<std::size_t>& ended() const { return ended_; }  // requests by their numbers

 private:
  std::promise<void> go_;
  std::thread::id began_;
  std::vector<std::vector<std::int64_t>> passes_;  // lengths of their texts
  std::vector<std::int64_t> ids_;
  std::vector<std::size_t> ended_;
  EncoderLoop loop_;
};

std::vector<std::vector<std::int32_t>> texts_of(std::size_t count, std::size_t length, std::int32_t id) {
  return {count, std::vector<std::int32_t>(length, id)};
}

TEST(EncoderLoop, TextsOfManyRequestsShareThePassesAndShortOnesDoNotWait) {
  SummingEncoder encoder;
  auto first = encoder.ask(texts_of(1, 5, 1)), many = encoder.ask(texts_of(200, 20, 2)),
       few = encoder.ask({{1, 2, 3}, {4}}), longest = encoder.ask(texts_of(1, 100, 3));
  encoder.go();
  EXPECT_EQ(first.get(), (std::vector<std::vector<double>>{{5, 5}}));
  EXPECT_EQ(few.get(), (std::vector<std::vector<double>>{{6, 3}, {4, 1}}));
  EXPECT_EQ(longest.get(), (std::vector<std::vector<double>>{{300, 100}}));
  EXPECT_EQ(many.get(), (std::vector<std::vector<double>>(200, {40, 20})));
  EXPECT_EQ(encoder.ended().back(), 1u) << "the many come last";
  for (const auto& lengths : encoder.passes()) {
    const std::int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    EXPECT_TRUE(tokens <= kTokensOfPass || lengths.size() == 1) << tokens;
  }
  EXPECT_LT(encoder.passes().size(), 90u);  // three texts of 20 tokens in most of them
}

// Tenants share the passes, however many requests each of them has.
TEST(EncoderLoop, TenantsTakeTurnsWhateverTheyQueue) {
  SummingEncoder encoder;
  std::vector<std::future<std::vector<std::vector<double>>>> answers;
  answers.push_back(encoder.ask(texts_of(1, 5, 1), "a"));
  for (int i = 0; i < 9; ++i) answers.push_back(encoder.ask(texts_of(10, 60, 1), "a"));
  answers.push_back(encoder.ask(texts_of(10, 60, 2), "b"));
  encoder.go();
  for (auto& answer : answers) answer.get();
  // With turns of requests alone it would come after nine tenths of all.
  const auto place = std::ranges::find(encoder.ended(), 10u) - encoder.ended().begin();
  EXPECT_EQ(place, 1) << "only the first request of a single text ends before it";
}

TEST(EncoderLoop, AnErrorAndACancelledRequestEndAlone) {
  SummingEncoder encoder;
  auto first = encoder.ask(texts_of(1, 5, 1)), gone = encoder.ask(texts_of(50, 20, 2));
  encoder.loop().cancel(encoder.last_id());
  auto other = encoder.ask(texts_of(3, 30, 3));
  encoder.go();
  first.get();
  EXPECT_EQ(other.get().size(), 3u);
  EXPECT_THROW(gone.get(), CommError);
  auto bad = encoder.ask({{1}, {-1}}), beside = encoder.ask({{8}});
  EXPECT_THROW(bad.get(), NumericsError);
  EXPECT_EQ(beside.get().front().front(), 8);
  EXPECT_EQ(encoder.ask({{7}}).get().front().front(), 7);
  EXPECT_EQ(encoder.loop().counters().requests, 0);
  EXPECT_EQ(encoder.loop().counters().texts, 0);
}

TEST(EncoderLoop, WhatIsOpenFailsWhenItIsToldSo) {
  SummingEncoder encoder;
  auto first = encoder.ask(texts_of(1, 5, 1)), open = encoder.ask(texts_of(500, 60, 1));
  encoder.loop().fail_all(std::make_exception_ptr(CommError("the end")));
  encoder.go();
  EXPECT_THROW(open.get(), CommError);
}

}  // namespace
}  // namespace stoa::infer
