#include "data/index_cache.h"

#include "base/checksum.h"
#include "base/error.h"

namespace stoa::data {

IndexCache::IndexCache(std::optional<fs::path> folder, Notice notice)
    : folder_(std::move(folder)), notice_(notice ? std::move(notice) : [](std::string_view) {}) {}

std::vector<NpyArray> IndexCache::get(std::string_view kind, std::string_view description,
                                      const std::vector<std::string>& names,
                                      const std::function<bool(const std::vector<NpyArray>&)>& accept,
                                      const std::function<std::vector<NpyArray>()>& build) const {
  if (!folder_) return build();
  const std::string stem = fmt::format("{}-{}", checksum_text(checksum(description)), kind);
  const auto path_of = [&](std::string_view rest) { return *folder_ / fmt::format("{}-{}", stem, rest); };
  const auto load = [&] {
    std::vector<NpyArray> arrays;
    for (const auto& name : names) arrays.push_back(NpyArray::load(path_of(name + ".npy")));
    require<DataError>(accept(arrays), "the arrays do not have the shape that their description asks for");
    return arrays;
  };

  std::error_code error;
  if (fs::exists(path_of("description.txt"), error)) {
    try {
      if (read_text(path_of("description.txt")) == description) return load();
    } catch (const Error& e) {
      notice_(fmt::format("cached indices in '{}' are not usable and are built again: {}", folder_->string(),
                          e.what()));
    }
  }

  std::vector<NpyArray> arrays = build();
  try {
    fs::create_directories(*folder_, error);
    require<IoError>(!error, "{}", error.message());
    for (std::size_t i = 0; i < names.size(); ++i) arrays[i].save(path_of(names[i] + ".npy"));
    write_text(path_of("description.txt"), description);
    return load();  // mapped: processes of one machine share the pages
  } catch (const Error& e) {
    notice_(fmt::format(
        "indices are kept in memory and built again by every start: cannot write the cache folder '{}' ({}); "
        "name a writable one",
        folder_->string(), e.what()));
  }
  return arrays;
}

fs::path default_cache_folder(const fs::path& prefix) { return prefix.parent_path() / "cache"; }

}  // namespace stoa::data
