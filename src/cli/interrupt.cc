#include "cli/interrupt.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

namespace stoa::cli {
namespace {

using std::chrono::duration, std::chrono::milliseconds;

// A signal that follows the first so soon is the same one: a terminal and a launcher may both send it.
constexpr milliseconds kEcho(200);
constexpr unsigned kLastWordsSeconds = 2;
constexpr int kInterrupted = 130;

const char* signal_name(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    default:
      return "SIGUSR1";
  }
}

// The grace period includes the time to print the last words.
duration<double> until_last_words(duration<double> grace) {
  return grace - std::min<duration<double>>(milliseconds(1500), 0.1 * grace);
}

}  // namespace

InterruptScope::InterruptScope(Console& console) : console_(console) {
  sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  thread_ = std::jthread([this](const std::stop_token& done) { watch(done); });
}

InterruptScope::~InterruptScope() { close(); }

void InterruptScope::close() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void InterruptScope::set(Manner manner) {
  const std::lock_guard lock(mutex_);
  manner_ = std::move(manner);
}

void InterruptScope::finish_files() {
  set({.grace = std::chrono::seconds(10),
       .words = "exiting as soon as the files are written (again: exit immediately)",
       .last_words = {}});
}

void InterruptScope::watch(const std::stop_token& done) {
  const timespec moment{0, 50'000'000};
  while (!done.stop_requested()) {
    const int signal = sigtimedwait(&signals_, nullptr, &moment);
    const std::lock_guard lock(mutex_);
    if (signal > 0) receive(signal);
    end_when_late();
  }
}

void InterruptScope::told(const std::string& who) {
  const std::lock_guard lock(mutex_);
  if (asked_) return;
  first_ = "a signal to " + who;
  if (!manner_.grace) end(first_ + ": exiting");
  asked_ = Clock::now();
  was_told_ = true;
  ask(first_);
}

void InterruptScope::receive(int signal) {
  const auto now = Clock::now();
  if (!manner_.grace) {
    if (signal != SIGUSR1) end(fmt::format("{}: exiting", signal_name(signal)));
    return;
  }
  if (signal == SIGUSR1) return ask(signal_name(signal));
  if (std::exchange(was_told_, false)) return;  // a launcher signals all processes, not all at once
  if (asked_ && now - *asked_ < kEcho) return;
  if (asked_) end(fmt::format("{} again: exiting immediately", signal_name(signal)));
  asked_ = now;
  first_ = signal_name(signal);
  ask(first_);
}

void InterruptScope::ask(const std::string& signal) {
  requested_.request_stop();
  if (!manner_.words.empty()) console_.line(fmt::format("{}: {}", signal, manner_.words));
}

void InterruptScope::end_when_late() {
  if (!asked_ || !manner_.grace || Clock::now() - *asked_ < until_last_words(*manner_.grace)) return;
  std::string words =
      fmt::format("{}: exiting, not finished within {}", first_, format_duration(manner_.grace->count()));
  ::alarm(kLastWordsSeconds);  // looking at files can hang
  if (manner_.last_words) words += "; " + manner_.last_words();
  end(words);
}

void InterruptScope::end(const std::string& words) {
  ::alarm(1);  // a terminal that takes no words holds nothing up either
  console_.finish_live();
  console_.line(words);
  ::_exit(kInterrupted);  // nothing is waited for: other threads may hang
}

}  // namespace stoa::cli
