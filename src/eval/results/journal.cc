#include "eval/results/journal.h"

#include <cerrno>
#include <cstring>

#include "base/checksum.h"
#include "base/error.h"
#include "infer/cache_type.h"

namespace stoa::eval {
namespace {

constexpr const char* kJournalName = "unfinished_answers";
constexpr int kFlushEvery = 64;  // answers that a kill may cost

}  // namespace

std::string request_key(const Request& request, const infer::GenerateOptions* generation,
                        const ScoringOptions& scoring) {
  std::string text =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n", static_cast<int>(request.kind), request.context.size(),
                  request.context, request.continuation, scoring.max_length.value_or(0),
                  scoring.add_bos ? static_cast<int>(*scoring.add_bos) : -1);
  if (scoring.cache) text += fmt::format("{}\n", infer::cache_type_name(*scoring.cache));
  if (generation) {
    const auto& s = generation->sampling;
    text +=
        fmt::format("{}\n{}\n{} {} {} {} {} {} {}", fmt::join(generation->stop, "\n"), generation->max_tokens,
                    s.greedy, s.temperature, s.top_k, s.top_p, s.min_p, s.repetition_penalty, s.seed);
  }
  return checksum_text(checksum(text));
}

// Whether the file is of the model; its answers are added.
bool Journal::read(const fs::path& path, const std::string& identity) {
  const std::string text = read_text(path);
  std::string_view rest = text;
  for (bool first = true; rest.find('\n') != std::string_view::npos; first = false) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    const Json entry = Json::parse(line, nullptr, false);
    if (first && !(entry.is_object() && entry.value("model", std::string()) == identity)) return false;
    if (!first && entry.is_array() && entry.size() == 4)  // a line that a kill cut short is none
      known_[entry[0]] = {entry[1], entry[2], entry[3]};
  }
  return !text.empty();
}

// unfinished_answers.jsonl, and of other ranks than the first unfinished_answers-1.jsonl …
std::vector<fs::path> Journal::files() const {
  std::vector<fs::path> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder_, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kJournalName) && name.ends_with(".jsonl") && entry.is_regular_file())
      out.push_back(entry.path());
  }
  return out;
}

Journal::Journal(fs::path folder, const std::string& identity, const Division& division)
    : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  path_ = folder_ / (division.first() ? fmt::format("{}.jsonl", kJournalName)
                                      : fmt::format("{}-{}.jsonl", kJournalName, division.rank));
  bool ours = false;
  for (const fs::path& file : files()) {
    const bool same = read(file, identity);
    if (file == path_) ours = same;
  }
  file_ = std::fopen(path_.c_str(), ours ? "ab" : "wb");
  require<IoError>(file_ != nullptr, "'{}' cannot be written: {}", path_.string(), std::strerror(errno));
  if (!ours) std::fputs((Json{{"model", identity}}.dump() + "\n").c_str(), file_);
}

Journal::~Journal() {
  if (file_) std::fclose(file_);
}

std::optional<Answer> Journal::find(const std::string& key) const {
  const auto it = known_.find(key);
  return it == known_.end() ? std::nullopt : std::optional(it->second);
}

void Journal::add(const std::string& key, const Answer& answer) {
  if (!file_) return;
  const Json line = Json::array({key, answer.log_likelihood, answer.greedy, answer.text});
  std::fputs((line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n").c_str(), file_);
  if (++unwritten_ < kFlushEvery) return;
  unwritten_ = 0;
  require<IoError>(std::fflush(file_) == 0, "'{}' cannot be written: {}", path_.string(),
                   std::strerror(errno));
}

void Journal::remove() {
  if (!file_) return;
  std::fclose(file_);
  file_ = nullptr;
  for (const fs::path& file : files()) fs::remove(file);
}

}  // namespace stoa::eval
