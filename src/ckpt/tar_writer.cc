#include "ckpt/tar_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/error.h"

namespace stoa::ckpt {
namespace {

constexpr std::size_t kTarBlock = 512;

void put_field(std::string& block, std::size_t at, std::string_view text) {
  block.replace(at, text.size(), text);
}

}  // namespace

void TarWriter::begin(const std::string& name, std::uint64_t bytes) {
  require<InternalError>(name.size() < 100, "a file of an archive has the name '{}'", name);
  std::string block(kTarBlock, '\0');
  put_field(block, 0, name);
  put_field(block, 100, "0000644");
  for (const std::size_t owner : {108u, 116u}) put_field(block, owner, "0000000");
  constexpr std::uint64_t kMostOctal = (std::uint64_t{1} << 33) - 1;
  if (bytes <= kMostOctal) {
    put_field(block, 124, fmt::format("{:011o}", bytes));
  } else {  // big-endian, with the first bit set
    block[124] = static_cast<char>(0x80);
    for (std::size_t i = 0; i < 8; ++i) block[135 - i] = static_cast<char>(bytes >> (8 * i) & 0xff);
  }
  put_field(block, 136, "00000000000");  // no time: the same content gives the same archive
  block[156] = '0';
  put_field(block, 257, std::string_view("ustar\00000", 8));
  put_field(block, 148, "        ");
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put_field(block, 148, std::string_view(fmt::format("{:06o}", sum) + std::string("\0 ", 2)));
  file_.write(block);
}

void TarWriter::fill_block() {
  const std::size_t rest = static_cast<std::size_t>(file_.size() % kTarBlock);
  if (rest > 0) file_.write(std::string(kTarBlock - rest, '\0'));
}

void TarWriter::add(const std::string& name, std::string_view content) {
  begin(name, content.size());
  file_.write(content);
  fill_block();
}

void TarWriter::move(const std::filesystem::path& folder, const std::string& prefix) {
  std::vector<std::filesystem::path> files;
  for (const auto& item : std::filesystem::directory_iterator(folder))
    if (item.is_regular_file()) files.push_back(item.path());
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    {
      const MappedFile map(path);
      add(fmt::format("{}/{}", prefix, path.filename().string()), map.text());
    }
    std::filesystem::remove(path);
  }
}

void TarWriter::commit() {
  file_.write(std::string(2 * kTarBlock, '\0'));
  file_.commit();
}

}  // namespace stoa::ckpt
