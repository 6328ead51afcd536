#include "train/tuning_sources.h"

#include <fmt/format.h>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file.h"

namespace stoa::train {
namespace {

std::vector<fs::path> paths_of(const std::vector<data::WeightedPrefix>& files) {
  std::vector<fs::path> out;
  for (const auto& file : files) {
    require<ConfigError>(file.weight == 1,
                         "model.data: '{}' has weight {}; files of chats are read completely: give them "
                         "without weights",
                         file.prefix, file.weight);
    out.emplace_back(file.prefix);
  }
  return out;
}

}  // namespace

TuningSources tuning_sources(const RunConfig& config) {
  const data::DataPrefix& prefix = config.data.data_prefix;
  const auto& named = config.chats;
  require<ConfigError>(prefix.empty() || named.train_ds.file_names.empty(),
                       "data_prefix and train_ds.file_names both name training data: give one");
  TuningSources out;
  if (!named.train_ds.file_names.empty()) {
    out.train.assign(named.train_ds.file_names.begin(), named.train_ds.file_names.end());
    out.validation.assign(named.validation_ds.file_names.begin(), named.validation_ds.file_names.end());
    out.divided = out.validation.empty();
  } else if (prefix.blend.empty()) {
    out.train = paths_of(prefix.train);
    out.validation = paths_of(prefix.validation);
  } else {
    out.train = paths_of(prefix.blend);
    out.divided = true;
  }
  require<ConfigError>(!out.train.empty(),
                       "no training data: model.data.chat needs files of chats (model.data=chats.jsonl)");
  return out;
}

std::string source_text(const tune::RecordFile& file) {
  std::uint64_t sum = 0;
  for (const auto& record : file.records()) sum = sum * 1'099'511'628'211U + checksum(record.json);
  return fmt::format("{} {}", fs::path(file.name()).filename().string(), checksum_text(sum));
}

}  // namespace stoa::train
