#include "serve/load/load.h"

#include <cmath>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/philox.h"
#include "serve/load/event_stream.h"

namespace stoa::serve {
namespace {

using Clock = std::chrono::steady_clock;
using Piece = nlohmann::json;

// The pieces of one answer, and when they came.
class AnswerClock {
 public:
  AnswerClock(Clock::time_point begin, SentRequest& request) : begin_(begin), request_(request) {}

  void read(std::string_view bytes) {
    const double now = std::chrono::duration<double>(Clock::now() - begin_).count();
    for (const std::string& event : events_.feed(bytes)) {
      if (event == "[DONE]") continue;
      const Piece piece = Piece::parse(event, nullptr, false);
      require<DataError>(piece.is_object(), "a piece of the answer is not a JSON object: {}",
                         event.substr(0, 200));
      if (piece.contains("error")) fail<DataError>("{}", piece["error"].dump());
      if (const auto usage = piece.find("usage"); usage != piece.end() && usage->is_object()) {
        request_.prompt_tokens = usage->value("prompt_tokens", std::int64_t{0});
        counted_ = usage->value("completion_tokens", std::int64_t{0});
      }
      if (has_text(piece)) note(now);
    }
  }
  void end() {
    require<DataError>(pieces_ > 0, "the answer has no text");
    request_.tokens = counted_ > 0 ? counted_ : pieces_;
  }

 private:
  static bool has_text(const Piece& piece) {
    const auto choices = piece.find("choices");
    if (choices == piece.end() || !choices->is_array() || choices->empty()) return false;
    const Piece& choice = choices->front();
    if (!choice.is_object()) return false;
    const auto filled = [](const Piece& from, const char* name) {
      const auto at = from.find(name);
      return at != from.end() && at->is_string() && !at->get_ref<const std::string&>().empty();
    };
    if (filled(choice, "text")) return true;
    const auto delta = choice.find("delta");
    return delta != choice.end() && delta->is_object() &&
           (filled(*delta, "content") || filled(*delta, "reasoning_content") ||
            delta->contains("tool_calls"));
  }
  void note(double now) {
    if (pieces_++ == 0)
      request_.first = now;
    else
      request_.gaps.push_back(static_cast<float>(now - request_.end));
    request_.end = now;
  }

  const Clock::time_point begin_;
  SentRequest& request_;
  EventStream events_;
  std::int64_t pieces_ = 0, counted_ = 0;
};

// Threads that wait for answers, one per request under way, with the connections that they keep.
class Senders {
 public:
  Senders(const LoadTarget& target, const std::function<std::string(std::int64_t)>& body,
          const std::function<void(std::int64_t)>& progress, Clock::time_point begin)
      : target_(target), body_(body), progress_(progress), begin_(begin) {}

  double now() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  Clock::time_point time_of(double seconds) const {
    return begin_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  // Waits for the answer.
  void send(http::Client& client, SentRequest& request, std::int64_t number) {
    try {
      AnswerClock answer(begin_, request);
      const http::Reply reply = client.stream(target_.path, body_(number), target_.headers,
                                              [&](std::string_view bytes) { answer.read(bytes); });
      request.status = reply.status;
      if (reply.status == 200)
        answer.end();
      else
        request.error = reply.body.empty() ? "an answer without a body" : reply.body.substr(0, 500);
    } catch (const Error& error) {
      request.error = error.what();
    }
    const std::lock_guard lock(mutex_);
    progress_(++ended_);
  }
  http::Client client() const { return http::Client(target_.address, target_.timeout); }

 private:
  const LoadTarget& target_;
  const std::function<std::string(std::int64_t)>& body_;
  const std::function<void(std::int64_t)>& progress_;
  const Clock::time_point begin_;
  std::mutex mutex_;
  std::int64_t ended_ = 0;
};

std::vector<SentRequest> run_clients(Senders& senders, const Load& load) {
  std::mutex mutex;
  std::deque<SentRequest> requests;
  std::vector<std::jthread> threads;
  for (int c = 0; c < load.clients; ++c)
    threads.emplace_back([&] {
      http::Client client = senders.client();
      while (load.seconds == 0 || senders.now() < load.seconds) {
        std::unique_lock lock(mutex);
        const auto i = static_cast<std::int64_t>(requests.size());
        if (i >= load.requests) return;
        SentRequest& request = requests.emplace_back();
        lock.unlock();
        request.due = senders.now();
        senders.send(client, request, i);
      }
    });
  threads.clear();
  return {std::move_iterator(requests.begin()), std::move_iterator(requests.end())};
}

// A request that arrives is sent by a thread that is free, else by a new one.
std::vector<SentRequest> run_arrivals(Senders& senders, const Load& load) {
  const std::vector<double> due = arrivals(load.rate, load.requests, load.seed, load.seconds);
  std::vector<SentRequest> requests(due.size());
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<std::int64_t> waiting;
  std::size_t idle = 0;
  bool over = false;
  const auto work = [&] {
    http::Client client = senders.client();
    std::unique_lock lock(mutex);
    while (true) {
      ++idle;
      arrived.wait(lock, [&] { return over || !waiting.empty(); });
      --idle;
      if (waiting.empty()) return;
      const std::int64_t i = waiting.front();
      waiting.pop_front();
      lock.unlock();
      senders.send(client, requests[static_cast<std::size_t>(i)], i);
      lock.lock();
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < due.size(); ++i) {
    std::this_thread::sleep_until(senders.time_of(due[i]));
    requests[i].due = due[i];
    const std::lock_guard lock(mutex);
    waiting.push_back(static_cast<std::int64_t>(i));
    if (idle < waiting.size()) threads.emplace_back(work);
    arrived.notify_one();
  }
  {
    const std::lock_guard lock(mutex);
    over = true;
  }
  arrived.notify_all();
  threads.clear();
  return requests;
}

}  // namespace

std::vector<double> arrivals(double rate, std::int64_t requests, std::uint64_t seed, double seconds) {
  const PhiloxKey key = philox_key(seed, RandomPurpose::kSampling, "arrivals");
  std::vector<double> out;
  double now = 0;
  for (std::int64_t i = 0; i < requests; ++i) {
    const float uniform = uniform_from_word(philox_word(key, static_cast<std::uint64_t>(i)));
    now -= std::log1p(-static_cast<double>(uniform)) / rate;
    if (seconds > 0 && now > seconds) break;
    out.push_back(now);
  }
  return out;
}

LoadResult run_load(const LoadTarget& target, const Load& load,
                    const std::function<std::string(std::int64_t)>& body,
                    const std::function<void(std::int64_t)>& progress) {
  Senders senders(target, body, progress, Clock::now());
  std::vector<SentRequest> requests =
      load.clients > 0 ? run_clients(senders, load) : run_arrivals(senders, load);
  return {std::move(requests), senders.now()};
}

}  // namespace stoa::serve
