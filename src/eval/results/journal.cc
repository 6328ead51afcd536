#include "eval/results/journal.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/checksum.h"
#include "base/error.h"

namespace stoa::eval {
namespace {

constexpr int kFlushEvery = 64;  // answers that a kill may cost

// The model's files: another model's answers must not be taken.
std::string model_identity(const infer::OpenModel& model) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(model.directory()))
    if (entry.is_regular_file())
      files.push_back(fmt::format("{} {} {}", entry.path().filename().string(), entry.file_size(),
                                  entry.last_write_time().time_since_epoch().count()));
  std::sort(files.begin(), files.end());
  return checksum_text(
      checksum(fmt::format("{}\n{}\n{}", fmt::join(files, "\n"), name_of(model.precision().compute),
                           model.model().config.num_layers)));
}

}  // namespace

std::string request_key(const Request& request, const GenerationOptions* generation,
                        const ScoringOptions& scoring) {
  std::string text =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n", static_cast<int>(request.kind), request.context.size(),
                  request.context, request.continuation, scoring.max_length.value_or(0),
                  scoring.add_bos ? static_cast<int>(*scoring.add_bos) : -1);
  if (generation) {
    const auto& s = generation->sampling;
    text += fmt::format("{}\n{}\n{} {} {} {} {} {} {}", fmt::join(generation->until, "\n"),
                        generation->max_tokens, s.greedy, s.temperature, s.top_k, s.top_p, s.min_p,
                        s.repetition_penalty, s.seed);
  }
  return checksum_text(checksum(text));
}

Journal::Journal(fs::path path, const infer::OpenModel& model) : path_(std::move(path)) {
  if (path_.empty()) return;
  const std::string identity = model_identity(model);
  bool ours = false;
  if (fs::is_regular_file(path_)) {
    const std::string text = read_text(path_);
    std::string_view rest = text;
    for (bool first = true; rest.find('\n') != std::string_view::npos; first = false) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(line.size() + 1);
      const Json entry = Json::parse(line, nullptr, false);
      if (first) {
        ours = entry.is_object() && entry.value("model", std::string()) == identity;
        if (!ours) break;
      } else if (entry.is_array() && entry.size() == 4) {  // a line that a kill cut short is none
        known_[entry[0]] = {entry[1], entry[2], entry[3]};
      }
    }
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
  fs::remove(path_);
}

}  // namespace stoa::eval
