// Index arrays kept between runs in Megatron's layout: `<hash>-<kind>-<name>.npy` with
// `<hash>-<kind>-description.txt`, and their checksums in `<hash>-<kind>-checksums.txt`. Any number of
// processes may build at once without coordination: each writes its own temporary files and renames
// them, all write the same bytes, and the description comes last, so that whoever sees it sees every
// array.
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

using Notice = std::function<void(std::string_view)>;  // receives messages for the user

class IndexCache {
 public:
  // Without a folder nothing is cached.
  explicit IndexCache(std::optional<fs::path> folder, Notice notice = {}, std::stop_token stop = {});

  // The arrays `names` that `description` (a JSON text) specifies: from the folder if they exist with
  // matching checksums and `accept` agrees, else from `build`. A folder that is not writable, or damaged
  // files in it, cause a notice and a rebuild, not an error. Interrupted: a stop was requested while arrays
  // had to be built.
  std::vector<NpyArray> get(std::string_view kind, std::string_view description,
                            const std::vector<std::string>& names,
                            const std::function<bool(const std::vector<NpyArray>&)>& accept,
                            const std::function<std::vector<NpyArray>()>& build) const;

  // Polled by `build` functions.
  const std::stop_token& stop() const { return stop_; }

 private:
  std::optional<fs::path> folder_;
  Notice notice_;
  std::stop_token stop_;
};

// The default folder for the indices of a data set: `cache` next to its files.
fs::path default_cache_folder(const fs::path& prefix);

}  // namespace stoa::data
