// Index arrays kept between runs, as Megatron does: `<hash>-<kind>-<name>.npy` beside
// `<hash>-<kind>-description.txt`. Any number of processes may build at once: each writes its own temporary
// files and renames them, all write the same bytes, and the description comes last, so that whoever sees it
// sees every array. Nobody waits for a designated writer.
#pragma once

#include <functional>
#include <optional>
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
  explicit IndexCache(std::optional<fs::path> folder, Notice notice = {});

  // The arrays `names` of what `description` (a JSON text) describes: from the folder when they are there and
  // `accept` agrees, else from `build`. A folder that cannot be written, or damaged files in it, are noticed
  // and cost time only.
  std::vector<NpyArray> get(std::string_view kind, std::string_view description,
                            const std::vector<std::string>& names,
                            const std::function<bool(const std::vector<NpyArray>&)>& accept,
                            const std::function<std::vector<NpyArray>()>& build) const;

 private:
  std::optional<fs::path> folder_;
  Notice notice_;
};

// Where the indices of a data set are kept unless the user says otherwise: `cache` beside its files.
fs::path default_cache_folder(const fs::path& prefix);

}  // namespace stoa::data
