#include "data/indexed_writer.h"

#include <xxhash.h>

#include <limits>
#include <numeric>

#include "base/checksum.h"
#include "base/error.h"

namespace stoa::data {
namespace {

constexpr std::size_t kWriteBufferBytes = 1 << 20;

fs::path with_extension(const fs::path& prefix, const char* extension) { return prefix.string() + extension; }

}  // namespace

// Running XXH3 of what is written, equal to base's checksum() of the whole.
class IndexedWriter::Hash {
 public:
  Hash() : state_(XXH3_createState()) { XXH3_64bits_reset(state_); }
  ~Hash() { XXH3_freeState(state_); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;
  void add(const void* data, std::size_t bytes) { XXH3_64bits_update(state_, data, bytes); }
  std::string text() const { return checksum_text(XXH3_64bits_digest(state_)); }

 private:
  XXH3_state_t* state_;
};

IndexedWriter::IndexedWriter(const fs::path& prefix, TokenDtype dtype)
    : prefix_(dataset_prefix(prefix)), dtype_(dtype) {
  require<ConfigError>(is_integer(dtype), "tokens are stored as integers, not {}", token_dtype_name(dtype));
  require<ConfigError>(prefix_.has_filename(),
                       "the output '{}' is a directory; expected a prefix such as '{}'", prefix.string(),
                       (prefix / "corpus").string());
  if (prefix_.has_parent_path()) {
    folder_.path = prefix_.parent_path();
    folder_.highest_made = make_directories(folder_.path);
  }
  remove_abandoned(prefix_.has_parent_path() ? prefix_.parent_path() : fs::path("."));
  bin_ = std::make_unique<AtomicFile>(with_extension(prefix_, ".bin"));
  idx_ = std::make_unique<AtomicFile>(with_extension(prefix_, ".idx"));
  bin_hash_ = std::make_unique<Hash>();
  buffer_.reserve(kWriteBufferBytes);
}

IndexedWriter::~IndexedWriter() = default;

void IndexedWriter::write_bin(std::span<const std::byte> stored) {
  bin_hash_->add(stored.data(), stored.size());
  tokens_ += static_cast<std::int64_t>(stored.size() / token_dtype_bytes(dtype_));
  constexpr std::size_t kLarge = 1 << 16;  // worth a system call of its own
  if (buffer_.size() + stored.size() > kWriteBufferBytes || stored.size() >= kLarge) {
    if (!buffer_.empty()) bin_->write(buffer_.data(), buffer_.size());
    buffer_.clear();
  }
  if (stored.size() >= kLarge) {
    bin_->write(stored.data(), stored.size());
  } else {
    buffer_.insert(buffer_.end(), stored.begin(), stored.end());
  }
}

void IndexedWriter::add_document(std::span<const std::int32_t> ids) {
  require<DataError>(ids.size() <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()),
                     "a document of {} tokens is longer than the .idx format can represent", ids.size());
  const auto length = static_cast<std::int32_t>(ids.size());
  add_document(ids, std::span(&length, ids.empty() ? 0u : 1u));
}

void IndexedWriter::add_document(std::span<const std::int32_t> ids, std::span<const std::int32_t> lengths) {
  const auto sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  require<InternalError>(sum == static_cast<std::int64_t>(ids.size()), "{} ids in sequences of {} in all",
                         ids.size(), sum);
  stored_.resize(ids.size() * token_dtype_bytes(dtype_));
  store_tokens(dtype_, ids.data(), stored_.data(), ids.size());
  write_bin(stored_);
  lengths_.insert(lengths_.end(), lengths.begin(), lengths.end());
  starts_.push_back(sequences());
}

void IndexedWriter::add_documents(std::span<const std::byte> stored,
                                  std::span<const std::int32_t> document_lengths) {
  const auto sum = std::accumulate(document_lengths.begin(), document_lengths.end(), std::int64_t{0});
  require<InternalError>(static_cast<std::size_t>(sum) * token_dtype_bytes(dtype_) == stored.size(),
                         "{} bytes in documents of {} tokens in all", stored.size(), sum);
  write_bin(stored);
  for (const std::int32_t n : document_lengths) {
    if (n > 0) lengths_.push_back(n);
    starts_.push_back(sequences());
  }
}

void IndexedWriter::add_documents(std::span<const std::byte> stored, std::span<const std::int32_t> lengths,
                                  std::span<const std::int32_t> counts) {
  const auto sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}),
             sequences_in = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  require<InternalError>(static_cast<std::size_t>(sum) * token_dtype_bytes(dtype_) == stored.size() &&
                             sequences_in == static_cast<std::int64_t>(lengths.size()),
                         "{} bytes in {} sequences of {} tokens in all, {} of them in documents",
                         stored.size(), lengths.size(), sum, sequences_in);
  write_bin(stored);
  const std::int64_t before = sequences();
  lengths_.insert(lengths_.end(), lengths.begin(), lengths.end());
  std::int64_t next = before;
  for (const std::int32_t n : counts) starts_.push_back(next += n);
}

void IndexedWriter::append(const IndexedDataset& other) {
  require<DataError>(other.dtype() == dtype_,
                     "'{}' stores {}, but the output stores {}; only equal types can be merged",
                     other.prefix().string(), token_dtype_name(other.dtype()), token_dtype_name(dtype_));
  const std::int64_t base = sequences();
  const std::size_t width = token_dtype_bytes(dtype_);
  for (std::int64_t s = 0; s < other.sequences(); ++s) {
    write_bin(other.bin_bytes().subspan(static_cast<std::size_t>(other.byte_offset(s)),
                                        static_cast<std::size_t>(other.length(s)) * width));
    lengths_.push_back(other.length(s));
  }
  for (std::int64_t d = 1; d <= other.documents(); ++d) starts_.push_back(base + other.document_start(d));
}

void IndexedWriter::commit(Provenance provenance) {
  require<InternalError>(bin_ != nullptr, "the writer of '{}' is finished", prefix_.string());
  bin_->write(buffer_.data(), buffer_.size());
  buffer_.clear();

  Hash idx_hash;
  const auto put = [&](const void* data, std::size_t bytes) {
    idx_hash.add(data, bytes);
    idx_->write(data, bytes);
  };
  const std::uint64_t version = 1, s = lengths_.size(), d = starts_.size();
  const auto code = static_cast<std::uint8_t>(dtype_);
  put(kIdxMagic.data(), kIdxMagic.size());
  put(&version, 8);
  put(&code, 1);
  put(&s, 8);
  put(&d, 8);
  put(lengths_.data(), lengths_.size() * 4);
  std::vector<std::int64_t> offsets;
  offsets.reserve(std::min<std::size_t>(lengths_.size(), kWriteBufferBytes / 8));
  std::int64_t at = 0;
  for (const std::int32_t n : lengths_) {
    offsets.push_back(at);
    at += static_cast<std::int64_t>(n) * static_cast<std::int64_t>(token_dtype_bytes(dtype_));
    if (offsets.size() == kWriteBufferBytes / 8) {
      put(offsets.data(), offsets.size() * 8);
      offsets.clear();
    }
  }
  put(offsets.data(), offsets.size() * 8);
  put(starts_.data(), starts_.size() * 8);

  provenance.documents = documents();
  provenance.sequences = sequences();
  provenance.tokens = tokens_;
  provenance.bin_checksum = bin_hash_->text();
  provenance.idx_checksum = idx_hash.text();

  // Readers need the .idx file, so it is removed first and written last: at no time can a reader see an
  // inconsistent pair.
  const fs::path bin_path = bin_->path(), idx_path = idx_->path(), side_path = provenance_path(prefix_);
  std::error_code error;
  fs::remove(idx_path, error);
  require<IoError>(!error, "cannot replace '{}': {}", idx_path.string(), error.message());
  try {
    bin_->commit();
    write_text(side_path, to_json(provenance));
    idx_->commit();
  } catch (...) {
    fs::remove(bin_path, error);
    fs::remove(side_path, error);
    throw;
  }
  bin_.reset();
  idx_.reset();
  folder_.highest_made.clear();
}

}  // namespace stoa::data
