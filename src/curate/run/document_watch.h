// Documents that end the process, or take longer than they may: they are written down, the program is started
// again in its place, and this time puts them into quarantine.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"

namespace stoa::curate {

// Those that were written down before; a document is known by its input and its number there.
class BadDocuments {
 public:
  explicit BadDocuments(const fs::path& list);  // a file that does not exist has none
  const std::string* reason(const fs::path& input, std::int64_t number) const;  // null: it is none of them

 private:
  std::map<std::pair<std::string, std::int64_t>, std::string> reasons_;
};

class DocumentWatch {
 public:
  // `list`: where bad documents are written down; its folder exists. `seconds`: of a processor for one
  // document, 0: any. `restart` does not return; it is called in a signal handler, too. One watch at a time.
  DocumentWatch(const fs::path& list, double seconds, std::function<void()> restart);
  ~DocumentWatch();
  DocumentWatch(const DocumentWatch&) = delete;
  DocumentWatch& operator=(const DocumentWatch&) = delete;

  // While it lives, its thread works on a document. `input` must outlive it.
  class Document {
   public:
    Document(DocumentWatch* watch, const fs::path& input, std::int64_t number);  // null: not watched
    ~Document();
    Document(const Document&) = delete;
    Document& operator=(const Document&) = delete;

   private:
    friend class DocumentWatch;
    DocumentWatch* const watch_;
    const char* input_;
    std::int64_t number_;
    clockid_t clock_{};
    double begin_ = 0;  // by that clock, s
  };

 private:
  void look(double seconds);
  static void write_down(const Document& document, const char* reason) noexcept;
  static void on_signal(int signal);

  const std::function<void()> restart_;
  std::mutex mutex_;
  std::vector<const Document*> documents_;  // under way
  std::jthread looker_;
};

}  // namespace stoa::curate
