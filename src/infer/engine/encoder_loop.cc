#include "infer/engine/encoder_loop.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace stoa::infer {
namespace {

constexpr std::int64_t kTextsOfPass = 64;

// No keys and values are kept: every text has one block for itself and one for its target's only token.
PassLimits limits_of_texts(std::int64_t longest, std::int64_t pass_tokens) {
  PassLimits l;
  l.block_tokens = longest;
  l.blocks = 4 * kTextsOfPass;
  l.context = 1;
  l.pass_tokens = pass_tokens;
  l.sequences = l.scored = kTextsOfPass;
  l.vocabulary = 1;
  l.source_tokens = longest;
  return l;
}

}  // namespace

EncoderLoop::EncoderLoop(std::int64_t longest, std::int64_t pass_tokens, std::function<void()> begin,
                         Read read)
    : begin_(std::move(begin)),
      read_(std::move(read)),
      scheduler_(limits_of_texts(longest, pass_tokens)),
      thread_([this] { run(); }) {}

EncoderLoop::~EncoderLoop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::int64_t EncoderLoop::submit(std::vector<std::vector<std::int32_t>> texts, Done done,
                                 std::string tenant) {
  require<InternalError>(!texts.empty(), "a request without a text");
  std::int64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_id_++;
    ++counters_.requests;
    counters_.texts += std::ssize(texts);
    orders_.push_back({id, std::move(texts), std::move(done), std::move(tenant)});
  }
  wake_.notify_all();
  return id;
}

void EncoderLoop::cancel(std::int64_t request) {
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back({request, {}, {}, {}});
  }
  wake_.notify_all();
}

void EncoderLoop::fail_all(const std::exception_ptr& error) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = error;
  }
  wake_.notify_all();
}

EncoderLoop::Counters EncoderLoop::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void EncoderLoop::take(Order& order) {
  if (order.texts.empty()) {
    if (open_.contains(order.request))
      drop(order.request)({}, std::make_exception_ptr(CommError("the request was cancelled")));
    return;
  }
  Request& request = open_[order.request];
  request.left = std::ssize(order.texts);
  request.vectors.resize(order.texts.size());
  request.done = std::move(order.done);
  for (std::size_t i = 0; i < order.texts.size(); ++i) {
    // A salt of its own: no text is taken for read because an equal one was.
    const SequenceId id = scheduler_.add({.tokens = {0},
                                          .source = std::move(order.texts[i]),
                                          .salt = fmt::format("{}", texts_++),
                                          .tenant = order.tenant,
                                          .group = fmt::format("{}", order.request),
                                          .most = 1});
    places_[id] = {order.request, i};
  }
}

EncoderLoop::Done EncoderLoop::drop(std::int64_t request) {
  std::erase_if(places_, [&](const auto& place) {
    if (place.second.request != request) return false;
    scheduler_.remove(place.first);
    return true;
  });
  const auto found = open_.find(request);
  Done out = std::move(found->second.done);
  const std::lock_guard lock(mutex_);
  --counters_.requests;
  counters_.texts -= found->second.left;
  open_.erase(found);
  return out;
}

void EncoderLoop::read_texts(std::span<const SequenceId> ids, std::span<const std::int32_t> tokens,
                             std::span<const std::int64_t> lengths) {
  std::size_t next = 0;
  read_(tokens, lengths, [&](std::span<const double> vector) {
    const Place& place = places_.at(ids[next++]);
    open_.at(place.request).vectors[place.text].assign(vector.begin(), vector.end());
  });
}

void EncoderLoop::pass() {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> lengths;
  std::vector<SequenceId> ids;
  for (const PassSegment& segment : scheduler_.next().segments) {
    tokens.insert(tokens.end(), segment.source.begin(), segment.source.end());
    lengths.push_back(std::ssize(segment.source));
    ids.push_back(segment.sequence);
  }
  require<InternalError>(!ids.empty(), "texts wait for each other");
  std::map<std::int64_t, std::exception_ptr> failed;  // by request
  try {
    read_texts(ids, tokens, lengths);
  } catch (...) {
    // Each alone: a text that cannot be read is of its own request.
    std::size_t begin = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto count = static_cast<std::size_t>(lengths[i]);
      try {
        read_texts(std::span(ids).subspan(i, 1), std::span(tokens).subspan(begin, count),
                   std::span(lengths).subspan(i, 1));
      } catch (...) {
        failed[places_.at(ids[i]).request] = std::current_exception();
      }
      begin += count;
    }
  }
  scheduler_.complete();
  for (const SequenceId id : ids) {
    const std::int64_t request = places_.extract(id).mapped().request;
    scheduler_.remove(id);
    --open_.at(request).left;
    const std::lock_guard lock(mutex_);
    --counters_.texts;
  }
  for (const auto& [request, error] : failed) drop(request)({}, error);
  std::vector<std::int64_t> ended;
  for (const auto& [id, request] : open_)
    if (request.left == 0) ended.push_back(id);
  for (const std::int64_t id : ended) {
    auto vectors = std::move(open_.at(id).vectors);
    drop(id)(std::move(vectors), nullptr);
  }
}

void EncoderLoop::run() {
  const auto end_all = [this](const std::exception_ptr& error) {
    while (!open_.empty()) drop(open_.begin()->first)({}, error);
  };
  std::vector<Order> orders;
  bool begun = false;
  for (bool stop = false; !stop;) {
    std::exception_ptr failure;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || failure_ || !orders_.empty() || !open_.empty(); });
      std::swap(orders, orders_);
      failure = std::exchange(failure_, nullptr);
      stop = stop_;
    }
    for (Order& order : orders) take(order);
    orders.clear();
    if (stop) failure = std::make_exception_ptr(CommError("the encoder was unloaded"));
    if (failure) end_all(failure);
    if (open_.empty()) continue;
    try {
      if (!begun) begin_();
      begun = true;
      pass();
    } catch (...) {
      end_all(std::current_exception());
    }
  }
}

}  // namespace stoa::infer
