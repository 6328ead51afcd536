#include "base/checksum.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <map>

#include "base/file.h"

namespace stoa {

std::uint64_t checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
std::uint64_t checksum(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }
std::uint64_t checksum_file(const std::filesystem::path& path) { return checksum(MappedFile(path).bytes()); }
std::string checksum_text(std::uint64_t value) { return fmt::format("{:016x}", value); }

// On the heap by XXH3's own function: it is to lie at a multiple of 64 bytes.
struct RunningChecksum::State {
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state{XXH3_createState(), XXH3_freeState};
};

RunningChecksum::RunningChecksum() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(state_->state.get());
}
RunningChecksum::~RunningChecksum() = default;
void RunningChecksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_->state.get(), bytes.data(), bytes.size());
}
std::uint64_t RunningChecksum::value() const { return XXH3_64bits_digest(state_->state.get()); }

std::uint64_t checksum_of_states(const std::filesystem::path& place) {
  std::map<std::string, std::string> states;  // by name
  const auto add = [&](const std::filesystem::path& path) {
    struct stat s = {};
    if (::stat(path.c_str(), &s) == 0)
      states[path.filename().string()] =
          fmt::format("{} {} {}", s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
  };
  if (!std::filesystem::is_directory(place))
    add(place);
  else
    for (const auto& entry : std::filesystem::directory_iterator(place))
      if (entry.is_regular_file()) add(entry.path());
  std::string all;
  for (const auto& [name, state] : states) all += name + " " + state + "\n";
  return checksum(all);
}

}  // namespace stoa
