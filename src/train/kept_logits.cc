#include "train/kept_logits.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file.h"
#include "base/half.h"
#include "ckpt/safetensors_writer.h"

namespace stoa::train {
namespace {

namespace fs = std::filesystem;
using ckpt::StorageType;

constexpr const char* kHeaderFile = "kept_logits.json";
constexpr int kVersion = 1;
constexpr const char* kOthers =
    "they were kept of other data, or with another tokenizer, template, length of rows, seed, batch size or "
    "number of steps and of batches of validation, by which the samples are chosen; keep them again";

fs::path file_of(const fs::path& directory, std::int64_t number) {
  return directory / fmt::format("rows-{:05}.safetensors", number);
}

std::size_t id_bytes(const KeptHeader& h) { return h.short_ids() ? 2 : 4; }

template <class T>
void append(std::vector<std::byte>& out, T value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <class T>
T number_at(const std::byte* bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
  return value;
}

std::uint64_t checksum_of(std::span<const std::byte> ids, std::span<const std::byte> values) {
  RunningChecksum sum;
  sum.add(ids);
  sum.add(values);
  return sum.value();
}

nlohmann::ordered_json json_of(const KeptHeader& h) {
  return {{"version", kVersion},
          {"teacher", h.teacher},
          {"teacher_checksum", h.checksum},
          {"tokenizer", h.tokenizer},
          {"vocabulary", h.vocabulary},
          {"top_k", h.top},
          {"type", std::string(name_of(h.type))}};
}

// Paths need not be UTF-8.
std::string json_text(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// The header, and how many files and rows it says there are; none where it was not finished.
struct ReadHeader {
  KeptHeader header;
  bool complete = false;
  std::int64_t files = 0, rows = 0;
};

ReadHeader read_file(const fs::path& path) {
  const auto json = nlohmann::json::parse(read_text(path), nullptr, false);
  require<DataError>(
      json.is_object(),
      "{} cannot be read: it is empty or damaged; keep the predictions again, in another directory",
      path.string());
  try {
    require<DataError>(json.at("version") == kVersion, "{}: version {}, expected {}", path.string(),
                       json.at("version").dump(), kVersion);
    const std::string type = json.at("type");
    ReadHeader out;
    out.header = {.top = json.at("top_k"),
                  .vocabulary = json.at("vocabulary"),
                  .type = type == name_of(DType::kF32) ? DType::kF32 : DType::kF16,
                  .teacher = json.at("teacher"),
                  .checksum = json.at("teacher_checksum"),
                  .tokenizer = json.at("tokenizer")};
    const KeptHeader& h = out.header;
    require<DataError>(type == name_of(h.type) && h.top > 0 && h.top <= h.vocabulary,
                       "{}: {} kept tokens of {} in {}, expected 1 to {} in fp16 or fp32", path.string(),
                       h.top, h.vocabulary, type, h.vocabulary);
    out.complete = json.contains("files");
    if (out.complete) out.files = json.at("files"), out.rows = json.at("rows");
    return out;
  } catch (const nlohmann::json::exception& error) {
    fail<DataError>("{} cannot be read: {}", path.string(), error.what());
  }
}

ReadHeader read_finished(const fs::path& directory) {
  const fs::path path = directory / kHeaderFile;
  require<DataError>(fs::exists(path),
                     "{} holds no predictions of a teacher ({} is missing): train or finetune with a teacher "
                     "and --keep-logits DIR writes them",
                     directory.string(), kHeaderFile);
  const ReadHeader found = read_file(path);
  require<DataError>(
      found.complete,
      "{}: keeping the predictions of {} was stopped; give the same command again to finish it",
      directory.string(), found.header.teacher);
  return found;
}

// A file's tensors, whose shapes are those of the header.
struct FileParts {
  FileParts(const ckpt::SafetensorsFile& file, const KeptHeader& h) {
    const auto take = [&](const char* name, StorageType type, std::int64_t first, std::int64_t columns) {
      const ckpt::StoredTensor* const found = file.find(name);
      require<DataError>(found != nullptr, "{} has no tensor {}", file.path().string(), name);
      std::vector<std::int64_t> shape{first < 0 && !found->entry.shape.empty() ? found->entry.shape[0]
                                                                               : first};
      if (columns > 0) shape.push_back(columns);
      require<DataError>(found->entry.type == type && found->entry.shape == shape,
                         "{}: {} is {} {}, expected {} of {} kept tokens", file.path().string(), name,
                         ckpt::name_of(found->entry.type), found->entry.shape_text(), ckpt::name_of(type),
                         h.top);
      return found;
    };
    keys = take("rows", StorageType::kI64, -1, 0);
    rows = keys->entry.shape[0];
    counts = take("tokens", StorageType::kI32, rows, 0);
    checksums = take("checksums", StorageType::kI64, rows, 0);
    ids = take("ids", h.short_ids() ? StorageType::kU16 : StorageType::kI32, -1, h.top);
    values = take("log_probabilities", ckpt::storage_type(h.type), ids->entry.shape[0], h.top + 1);
    std::int64_t sum = 0;
    bool right = true;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto count = number_at<std::int32_t>(counts->bytes.data(), static_cast<std::size_t>(r));
      right = right && count >= 0;
      sum += count;
    }
    require<DataError>(right && sum == ids->entry.shape[0],
                       "{}: its rows do not have the {} tokens that are kept in it", file.path().string(),
                       ids->entry.shape[0]);
  }
  std::int64_t rows = 0;
  const ckpt::StoredTensor *keys = nullptr, *counts = nullptr, *checksums = nullptr, *ids = nullptr,
                           *values = nullptr;
};

std::span<const std::byte> part_of(const ckpt::StoredTensor& tensor, std::int64_t begin, std::int64_t count,
                                   std::size_t bytes) {
  return tensor.bytes.subspan(static_cast<std::size_t>(begin) * bytes,
                              static_cast<std::size_t>(count) * bytes);
}

}  // namespace

std::int64_t KeptHeader::bytes_per_token() const {
  return top * static_cast<std::int64_t>(id_bytes(*this)) +
         (top + 1) * static_cast<std::int64_t>(size_of(type));
}

std::uint64_t checksum_of_row(const data::Batch& batch, std::int64_t row) {
  const auto length = static_cast<std::size_t>(batch.sequence_length),
             at = static_cast<std::size_t>(row) * length;
  RunningChecksum sum;
  sum.add(std::as_bytes(std::span(batch.tokens).subspan(at, length)));
  sum.add(std::as_bytes(std::span(batch.labels).subspan(at, length)));
  sum.add(std::as_bytes(std::span(batch.loss_mask).subspan(at, length)));
  sum.add(std::as_bytes(batch.boundaries(row)));
  return sum.value();
}

KeptLogitsWriter::KeptLogitsWriter(fs::path directory, const KeptHeader& header, std::size_t file_bytes)
    : directory_(std::move(directory)), header_(header), file_bytes_(file_bytes) {
  const fs::path path = directory_ / kHeaderFile;
  remove_abandoned(directory_);
  if (!fs::exists(path)) {
    require<ConfigError>(
        !fs::exists(directory_) || (fs::is_directory(directory_) && fs::is_empty(directory_)),
        "{} is not an empty folder, and holds no predictions of a teacher: name another directory",
        directory_.string());
    fs::create_directories(directory_);
    write_header(false);
    return;
  }
  const ReadHeader found = read_file(path);
  require<ConfigError>(!found.complete,
                       "{} holds the predictions of {} already: remove it, or name another directory",
                       directory_.string(), found.header.teacher);
  require<ConfigError>(found.header == header_,
                       "{} was begun otherwise ({}, now {}): remove it, or name another directory",
                       directory_.string(), json_text(json_of(found.header)), json_text(json_of(header_)));
  for (; fs::exists(file_of(directory_, files_)); ++files_) {
    const ckpt::SafetensorsFile file(file_of(directory_, files_));
    const FileParts parts(file, header_);
    for (std::int64_t r = 0; r < parts.rows; ++r)
      kept_.insert(number_at<std::uint64_t>(parts.keys->bytes.data(), static_cast<std::size_t>(r)));
    tokens_ += parts.ids->entry.shape[0];
  }
}

void KeptLogitsWriter::add(std::uint64_t row, std::span<const KeptToken> tokens) {
  if (!kept_.insert(row).second) return;
  const std::size_t first_id = ids_.size(), first_value = values_.size();
  for (const KeptToken& token : tokens) {
    for (const std::int32_t id : token.ids)
      header_.short_ids() ? append(ids_, static_cast<std::uint16_t>(id)) : append(ids_, id);
    for (const float x : token.log_probabilities)
      header_.type == DType::kF16 ? append(values_, f16(x)) : append(values_, x);
  }
  rows_.push_back(std::bit_cast<std::int64_t>(row));
  counts_.push_back(static_cast<std::int32_t>(tokens.size()));
  checksums_.push_back(std::bit_cast<std::int64_t>(
      checksum_of(std::span(ids_).subspan(first_id), std::span(values_).subspan(first_value))));
  tokens_ += static_cast<std::int64_t>(tokens.size());
  if (ids_.size() + values_.size() >= file_bytes_) flush();
}

void KeptLogitsWriter::flush() {
  if (rows_.empty()) return;
  const auto rows = static_cast<std::int64_t>(rows_.size()),
             tokens = static_cast<std::int64_t>(ids_.size() / id_bytes(header_)) / header_.top;
  const auto entry = [](const char* name, StorageType type, std::vector<std::int64_t> shape) {
    ckpt::TensorEntry out;
    out.name = name, out.type = type, out.shape = std::move(shape);
    return out;
  };
  ckpt::SafetensorsWriter writer(
      file_of(directory_, files_),
      ckpt::SafetensorsLayout(
          {entry("rows", StorageType::kI64, {rows}), entry("tokens", StorageType::kI32, {rows}),
           entry("checksums", StorageType::kI64, {rows}),
           entry("ids", header_.short_ids() ? StorageType::kU16 : StorageType::kI32, {tokens, header_.top}),
           entry("log_probabilities", ckpt::storage_type(header_.type), {tokens, header_.top + 1})}),
      ckpt::WriteMode::kAtomic);
  writer.write_bytes("rows", std::as_bytes(std::span(rows_)));
  writer.write_bytes("tokens", std::as_bytes(std::span(counts_)));
  writer.write_bytes("checksums", std::as_bytes(std::span(checksums_)));
  writer.write_bytes("ids", ids_);
  writer.write_bytes("log_probabilities", values_);
  writer.commit();
  ++files_;
  rows_.clear(), counts_.clear(), checksums_.clear(), ids_.clear(), values_.clear();
}

void KeptLogitsWriter::write_header(bool complete) const {
  nlohmann::ordered_json json = json_of(header_);
  if (complete) {
    json["files"] = files_;
    json["rows"] = kept_.size();
    json["tokens"] = tokens_;
  }
  write_text(directory_ / kHeaderFile, json_text(json, 2) + "\n");
}

void KeptLogitsWriter::commit() {
  flush();
  write_header(true);
}

KeptHeader KeptLogits::read_header(const fs::path& directory) { return read_finished(directory).header; }

KeptLogits::KeptLogits(const fs::path& directory) : directory_(directory) {
  const ReadHeader found = read_finished(directory);
  header_ = found.header;
  for (std::int64_t n = 0; n < found.files; ++n) open(file_of(directory, n));
  require<DataError>(static_cast<std::int64_t>(places_.size()) == found.rows,
                     "{}: its files hold {} rows, {} says {}", directory.string(), places_.size(),
                     kHeaderFile, found.rows);
}

void KeptLogits::open(const fs::path& path) {
  files_.emplace_back(path);
  const FileParts parts(files_.back(), header_);
  std::int64_t begin = 0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(parts.rows); ++r) {
    const std::int64_t count = number_at<std::int32_t>(parts.counts->bytes.data(), r);
    places_.emplace(
        number_at<std::uint64_t>(parts.keys->bytes.data(), r),
        Place{files_.size() - 1, begin, count, number_at<std::uint64_t>(parts.checksums->bytes.data(), r)});
    begin += count;
  }
}

void KeptLogits::fill(data::Batch& batch) const {
  const auto tokens = static_cast<std::size_t>(batch.rows * batch.sequence_length),
             top = static_cast<std::size_t>(header_.top);
  batch.kept_ids.assign(tokens * top, 0);
  batch.kept_log_probabilities.assign(tokens * (top + 1), 0);
  for (std::int64_t row = 0; row < batch.rows; ++row) fill_row(batch, row);
}

void KeptLogits::fill_row(data::Batch& batch, std::int64_t row) const {
  const auto found = places_.find(checksum_of_row(batch, row));
  require<DataError>(found != places_.end(), "{} has no predictions of sample {}: {}", directory_.string(),
                     batch.samples[static_cast<std::size_t>(row)], kOthers);
  const Place& place = found->second;
  const ckpt::SafetensorsFile& file = files_[place.file];
  const auto top = static_cast<std::size_t>(header_.top), id_size = id_bytes(header_),
             value_size = size_of(header_.type);
  const auto ids = part_of(*file.find("ids"), place.begin, place.count, top * id_size),
             values =
                 part_of(*file.find("log_probabilities"), place.begin, place.count, (top + 1) * value_size);
  const auto length = static_cast<std::size_t>(batch.sequence_length),
             at = static_cast<std::size_t>(row) * length;
  std::size_t next = 0;
  bool right = checksum_of(ids, values) == place.checksum;
  for (std::size_t i = at; i < at + length && right; ++i) {
    if (batch.loss_mask[i] == 0) continue;
    right = next < static_cast<std::size_t>(place.count);
    if (!right) break;
    std::int64_t before = -1;
    for (std::size_t c = 0; c < top; ++c) {
      const std::size_t n = next * top + c;
      const std::int32_t id = header_.short_ids() ? number_at<std::uint16_t>(ids.data(), n)
                                                  : number_at<std::int32_t>(ids.data(), n);
      right = right && id > before && id < header_.vocabulary;
      batch.kept_ids[i * top + c] = id;
      before = id;
    }
    for (std::size_t c = 0; c <= top; ++c) {
      const std::size_t n = next * (top + 1) + c;
      batch.kept_log_probabilities[i * (top + 1) + c] =
          header_.type == DType::kF16 ? static_cast<float>(number_at<f16>(values.data(), n))
                                      : number_at<float>(values.data(), n);
    }
    ++next;
  }
  require<DataError>(right && next == static_cast<std::size_t>(place.count), "{} is damaged at sample {}",
                     file.path().string(), batch.samples[static_cast<std::size_t>(row)]);
}

void KeptLogits::require_rows(const data::Dataset& data, std::int64_t rows, const char* what) const {
  data::Batch batch;
  for (std::int64_t k = 0; k < std::min(rows, data.size()); ++k) {
    data::fill_batch(data, std::span(&k, 1), batch);
    require<DataError>(places_.contains(checksum_of_row(batch, 0)),
                       "{} has no predictions of {} sample {}: {}", directory_.string(), what, k, kOthers);
  }
}

}  // namespace stoa::train
