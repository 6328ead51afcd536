#include "data/index_cache.h"

#include "base/checksum.h"
#include "base/error.h"

namespace stoa::data {

namespace {

// A line per array: its checksum and its name.
std::string checksums_of(const std::vector<std::string>& names, const std::vector<NpyArray>& arrays) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{} {}\n", checksum_text(checksum(arrays[i].bytes())), names[i]);
  return text;
}

}  // namespace

IndexCache::IndexCache(std::optional<fs::path> folder, Notice notice, std::stop_token stop)
    : folder_(std::move(folder)),
      notice_(notice ? std::move(notice) : [](std::string_view) {}),
      stop_(std::move(stop)) {}

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
    require<DataError>(read_text(path_of("checksums.txt")) == checksums_of(names, arrays),
                       "their content has changed since it was written: the checksums differ");
    return arrays;
  };
  const auto go_on = [&] {
    require<Interrupted>(!stop_.stop_requested(), "interrupted while the data was indexed");
  };

  std::error_code error;
  if (fs::exists(path_of("description.txt"), error)) {
    try {
      if (read_text(path_of("description.txt")) == description) return load();
    } catch (const Error& e) {
      notice_(fmt::format("cached indices in '{}' are not usable and are rebuilt: {}", folder_->string(),
                          e.what()));
    }
  }

  go_on();
  std::vector<NpyArray> arrays = build();
  go_on();
  try {
    fs::create_directories(*folder_, error);
    require<IoError>(!error, "{}", error.message());
    remove_abandoned(*folder_);
    for (std::size_t i = 0; i < names.size(); ++i) {
      go_on();
      arrays[i].save(path_of(names[i] + ".npy"));
    }
    write_text(path_of("checksums.txt"), checksums_of(names, arrays));
    write_text(path_of("description.txt"), description);
    return load();  // mapped: processes of one machine share the pages
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& e) {
    notice_(
        fmt::format("indices are kept in memory and rebuilt at every start: cannot write the cache directory "
                    "'{}' ({}); give a writable one",
                    folder_->string(), e.what()));
  }
  return arrays;
}

fs::path default_cache_folder(const fs::path& prefix) { return prefix.parent_path() / "cache"; }

}  // namespace stoa::data
