// Index arrays kept between runs, as Megatron does: `<hash>-<kind>-<name>.npy` beside
// `<hash>-<kind>-description.txt`, and their checksums in `<hash>-<kind>-checksums.txt`. Any number of
// processes may build at once: each writes its own temporary files and renames them, all write the same
// bytes, and the description comes last, so that whoever sees it sees every array. Nobody waits for a
// designated writer.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/npy_array.h"

namespace stoa::data {

using Notice = std::function<void(std::string_view)>;  // where a data set says what the user should know

class IndexCache {
 public:
  // Without a folder nothing is kept.
  explicit IndexCache(std::optional<fs::path> folder, Notice notice = {}, std::stop_token stop = {});

  // The arrays `names` of what `description` (a JSON text) describes: from the folder when they are there
  // with the checksums of when they were written and `accept` agrees, else from `build`. A folder that cannot
  // be written, or damaged files in it, are noticed and cost time only. Interrupted: a stop was asked for
  // while there was something to build.
  std::vector<NpyArray> get(std::string_view kind, std::string_view description,
                            const std::vector<std::string>& names,
                            const std::function<bool(const std::vector<NpyArray>&)>& accept,
                            const std::function<std::vector<NpyArray>()>& build) const;

  // For builders, which look at it.
  const std::stop_token& stop() const { return stop_; }

 private:
  std::optional<fs::path> folder_;
  Notice notice_;
  std::stop_token stop_;
};

// Where the indices of a data set are kept unless the user says otherwise: `cache` next to its files.
fs::path default_cache_folder(const fs::path& prefix);

}  // namespace stoa::data
