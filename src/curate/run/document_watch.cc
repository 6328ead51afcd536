#include "curate/run/document_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace stoa::curate {
namespace {

constexpr int kFatalSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr std::chrono::milliseconds kLookEvery(200);
constexpr std::size_t kSignalStack = std::size_t{64} << 10;

// A signal handler sees nothing else.
struct SignalView {
  DocumentWatch* watch = nullptr;
  int list = -1;  // file descriptor
};
SignalView g_signal_view;
thread_local const DocumentWatch::Document* t_document = nullptr;

// A stack of its own for the handler of this thread: the thread's may be what is used up.
void give_signal_stack() {
  thread_local std::unique_ptr<char[]> stack;
  if (stack) return;
  stack = std::make_unique<char[]>(kSignalStack);
  stack_t own{};
  own.ss_sp = stack.get();
  own.ss_size = kSignalStack;
  ::sigaltstack(&own, nullptr);
}

double seconds_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

BadDocuments::BadDocuments(const fs::path& list) {
  if (!fs::exists(list)) return;
  const std::string lines = read_text(list);
  for (std::string_view rest = lines; !rest.empty();) {  // NUMBER, tab, reason, tab, input
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::size_t reason = line.find('\t'), input = line.find('\t', reason + 1);
    std::int64_t number = 0;
    if (input == line.npos || std::from_chars(line.data(), line.data() + reason, number).ec != std::errc())
      continue;  // half a line, of a process that was killed
    reasons_[{std::string(line.substr(input + 1)), number}] = line.substr(reason + 1, input - reason - 1);
  }
}

const std::string* BadDocuments::reason(const fs::path& input, std::int64_t number) const {
  const auto found = reasons_.find({input.string(), number});
  return found == reasons_.end() ? nullptr : &found->second;
}

DocumentWatch::DocumentWatch(const fs::path& list, double seconds, std::function<void()> restart)
    : restart_(std::move(restart)) {
  g_signal_view = {this, ::open(list.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)};
  require<IoError>(g_signal_view.list >= 0, "cannot write '{}': {}", list.string(), std::strerror(errno));
  struct sigaction action {};
  action.sa_handler = &on_signal;
  action.sa_flags = SA_ONSTACK | SA_RESETHAND;
  for (const int signal : kFatalSignals) ::sigaction(signal, &action, nullptr);
  if (seconds > 0)
    looker_ = std::jthread([this, seconds](const std::stop_token& stop) {
      std::mutex mutex;
      std::condition_variable_any ended;
      std::unique_lock lock(mutex);
      while (!ended.wait_for(lock, stop, kLookEvery, [&] { return stop.stop_requested(); })) look(seconds);
    });
}

DocumentWatch::~DocumentWatch() {
  looker_ = {};
  for (const int signal : kFatalSignals) ::signal(signal, SIG_DFL);
  ::close(g_signal_view.list);
  g_signal_view = {};
}

void DocumentWatch::look(double seconds) {
  std::lock_guard lock(mutex_);
  for (const Document* document : documents_) {
    if (seconds_of(document->clock_) - document->begin_ <= seconds) continue;
    write_down(*document, fmt::format("it took more than {} s", seconds).c_str());
    restart_();
  }
}

void DocumentWatch::write_down(const Document& document, const char* reason) noexcept {
  std::array<char, 24> number{};
  const char* const end = std::to_chars(number.data(), number.data() + number.size(), document.number_).ptr;
  const std::pair<const char*, std::size_t> parts[] = {
      {number.data(), static_cast<std::size_t>(end - number.data())},
      {"\t", 1},
      {reason, std::strlen(reason)},
      {"\t", 1},
      {document.input_, std::strlen(document.input_)},
      {"\n", 1}};
  for (const auto& [text, bytes] : parts)
    if (::write(g_signal_view.list, text, bytes) < 0) return;
}

void DocumentWatch::on_signal(int signal) {
  if (t_document != nullptr) {
    write_down(*t_document, signal == SIGABRT ? "it made the program give up" : "it made the program fail");
    g_signal_view.watch->restart_();
  }
  ::raise(signal);  // as without a handler
}

DocumentWatch::Document::Document(DocumentWatch* watch, const fs::path& input, std::int64_t number)
    : watch_(watch), input_(input.c_str()), number_(number) {
  if (!watch_) return;
  give_signal_stack();
  ::pthread_getcpuclockid(::pthread_self(), &clock_);
  begin_ = seconds_of(clock_);
  t_document = this;
  std::lock_guard lock(watch_->mutex_);
  watch_->documents_.push_back(this);
}

DocumentWatch::Document::~Document() {
  if (!watch_) return;
  t_document = nullptr;
  std::lock_guard lock(watch_->mutex_);
  std::erase(watch_->documents_, this);
}

}  // namespace stoa::curate
