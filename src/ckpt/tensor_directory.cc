#include "ckpt/tensor_directory.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "ckpt/shard_index.h"

namespace stoa::ckpt {
namespace {

fs::path single_file(const fs::path& directory, std::string_view stem) {
  return directory / fmt::format("{}.safetensors", stem);
}
fs::path index_file(const fs::path& directory, std::string_view stem) {
  return directory / fmt::format("{}.safetensors.index.json", stem);
}

}  // namespace

bool TensorDirectory::exists(const fs::path& directory, std::string_view stem) {
  std::error_code ignored;
  return fs::exists(single_file(directory, stem), ignored) ||
         fs::exists(index_file(directory, stem), ignored);
}

TensorDirectory::TensorDirectory(fs::path directory, std::string_view stem)
    : TensorSource(std::move(directory)) {
  if (const auto single = single_file(this->directory(), stem); fs::exists(single))
    add(single);
  else
    open_shards(stem);
  std::sort(tensors_.begin(), tensors_.end(),
            [](const StoredTensor* a, const StoredTensor* b) { return a->entry.name < b->entry.name; });
  std::vector<const TensorEntry*> entries;
  for (const auto* tensor : tensors_) entries.push_back(&tensor->entry);
  set_entries(std::move(entries));
}

void TensorDirectory::open_shards(std::string_view stem) {
  const auto path = index_file(directory(), stem);
  require<IoError>(fs::exists(path), "'{}' holds neither {}.safetensors nor {}.safetensors.index.json",
                   directory().string(), stem, stem);
  const ShardIndex index(path);
  for (const auto& file : index.files()) add(directory() / file);
  index.require_all([&](const std::string& name) { return find(name) != nullptr; });
}

void TensorDirectory::add(const fs::path& path) {
  files_.push_back(std::make_unique<SafetensorsFile>(path));
  for (const auto& tensor : files_.back()->tensors()) {
    require<DataError>(index_.emplace(tensor.entry.name, &tensor).second,
                       "'{}' holds tensor '{}', as another shard does", path.string(), tensor.entry.name);
    tensors_.push_back(&tensor);
  }
}

const StoredTensor* TensorDirectory::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : it->second;
}

const StoredTensor& TensorDirectory::at(std::string_view name) const {
  entry(name);  // which says that there is none
  return *find(name);
}

std::span<const std::byte> TensorDirectory::elements(const TensorEntry& tensor, std::int64_t begin,
                                                     std::int64_t end, std::vector<std::byte>&) const {
  const std::size_t each = size_of(tensor.type);
  return at(tensor.name)
      .bytes.subspan(static_cast<std::size_t>(begin) * each, static_cast<std::size_t>(end - begin) * each);
}

std::string compare_tensors(const std::vector<TensorSpec>& expected, const TensorDirectory& found,
                            const std::function<bool(std::string_view)>& ignore) {
  std::string missing, wrong, unexpected;
  std::set<std::string_view> wanted;
  for (const auto& spec : expected) {
    wanted.insert(spec.name);
    const auto* tensor = found.find(spec.name);
    const TensorEntry entry = entry_of(spec);
    if (!tensor)
      missing += fmt::format("\n  missing: {} {}", spec.name, spec.shape.text());
    else if (tensor->entry.shape != entry.shape)
      wrong += fmt::format("\n  wrong shape: {} is {}, expected {}", spec.name, tensor->entry.shape_text(),
                           spec.shape.text());
  }
  for (const auto* tensor : found.tensors())
    if (!wanted.contains(tensor->entry.name) && !(ignore && ignore(tensor->entry.name)))
      unexpected += fmt::format("\n  unexpected: {} {}", tensor->entry.name, tensor->entry.shape_text());
  return missing + wrong + unexpected;
}

void require_tensors(const std::vector<TensorSpec>& expected, const TensorDirectory& found,
                     const std::function<bool(std::string_view)>& ignore) {
  const std::string problems = compare_tensors(expected, found, ignore);
  require<DataError>(problems.empty(), "the tensors in '{}' are not those of this model:{}",
                     found.directory().string(), problems);
}

std::vector<TensorEntry> entries_of(const std::vector<TensorSpec>& specs) {
  std::vector<TensorEntry> out;
  for (const auto& spec : specs) out.push_back(entry_of(spec));
  return out;
}

ShardedWriter::ShardedWriter(fs::path directory, std::string_view stem, std::vector<TensorEntry> tensors,
                             WriteMode placement, std::uint64_t max_shard_bytes)
    : directory_(std::move(directory)), stem_(stem), placement_(placement) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  std::vector<std::vector<TensorEntry>> shards(1);
  std::uint64_t filled = 0;
  for (auto& tensor : tensors) {
    if (!shards.back().empty() && filled + tensor.bytes() > max_shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    filled += tensor.bytes();
    total_bytes_ += tensor.bytes();
    require<InternalError>(shard_index_.emplace(tensor.name, shards.size() - 1).second,
                           "tensor '{}' would be written twice", tensor.name);
    shards.back().push_back(std::move(tensor));
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    names_.push_back(shards.size() == 1
                         ? stem_ + ".safetensors"
                         : fmt::format("{}-{:05}-of-{:05}.safetensors", stem_, i + 1, shards.size()));
    writers_.push_back(std::make_unique<SafetensorsWriter>(
        directory_ / names_.back(), SafetensorsLayout(std::move(shards[i])), placement));
  }
}

void ShardedWriter::write(const ShardSpec& shard, const TensorView& memory) {
  TensorView local = memory;
  if (shard.flat) {  // addressed by flat element of the local tensor, as in read_shard
    local.shape = shard.local;
    local.stride0 = shard.local.inner();
  }
  for (const auto& piece : shard.pieces) write(piece, local, shard.flat);
}

SafetensorsWriter& ShardedWriter::shard_of(const std::string& name) {
  const auto it = shard_index_.find(name);
  require<InternalError>(it != shard_index_.end(), "tensor '{}' was not declared for '{}'", name,
                         directory_.string());
  return *writers_[it->second];
}

std::uint64_t ShardedWriter::file_bytes() const {
  std::uint64_t total = 0;
  for (const auto& writer : writers_) total += writer->layout().file_bytes();
  return total;
}

std::vector<ShardedWriter::PartSum> ShardedWriter::part_sums(bool header) const {
  std::vector<PartSum> sums;
  for (std::size_t i = 0; i < writers_.size(); ++i) {
    const SafetensorsWriter& writer = *writers_[i];
    sums.push_back({names_[i], writer.layout().file_bytes(),
                    writer.crc_of_tensors() ^ (header ? writer.crc_of_header() : 0)});
  }
  return sums;
}

std::map<std::string, std::uint64_t> ShardedWriter::checksums() const {
  std::map<std::string, std::uint64_t> out;
  for (std::size_t i = 0; i < writers_.size(); ++i)
    if (const auto sum = writers_[i]->checksum()) out.emplace(names_[i], *sum);
  return out;
}

void ShardedWriter::commit() {
  for (auto& writer : writers_) writer->commit();
  if (writers_.size() > 1) {
    nlohmann::json map = nlohmann::json::object();
    for (const auto& [name, shard] : shard_index_) map[name] = names_[shard];
    const nlohmann::json index{{"metadata", {{"total_size", total_bytes_}}}, {"weight_map", std::move(map)}};
    write_text(index_file(directory_, stem_), index.dump(2) + "\n");
  }
}

}  // namespace stoa::ckpt
