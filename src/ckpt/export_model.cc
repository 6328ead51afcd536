#include "ckpt/export_model.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ckpt/convert.h"
#include "ckpt/foreign_directory.h"
#include "ckpt/model_checksums.h"

namespace stoa::ckpt {
namespace {

constexpr const char* kTemplateFolder = "additional_chat_templates";

std::string torch_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    default:
      fail<ConfigError>("a model is exported as fp32, bf16 or fp16, not {}", name_of(dtype));
  }
}

int lock_directory(const fs::path& path, int kind) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || ::flock(fd, kind | LOCK_NB) == 0) return fd;
  ::close(fd);
  return -1;
}

// The directory of the export until it is complete; removed if it never is: what a killed process leaves goes
// with the next export of that name.
class Staging {
 public:
  explicit Staging(const fs::path& output) : output_(output) {
    const std::string prefix = fmt::format(".{}.tmp-", output.filename().string());
    path_ = output.parent_path() / fmt::format("{}{}", prefix, ::getpid());
    std::error_code error;
    if (output.has_parent_path()) fs::create_directories(output.parent_path(), error);
    if (!error) remove_abandoned_stagings(prefix);
    if (!error) fs::remove_all(path_, error);
    if (!error) fs::create_directory(path_, error);
    require<IoError>(!error, "cannot write '{}': {}", output.string(), error.message());
    lock_ = lock_directory(path_, LOCK_SH);
  }
  ~Staging() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    if (lock_ >= 0) ::close(lock_);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  const fs::path& path() const { return path_; }
  // `last`: may still throw.
  void publish(const std::function<void()>& last) {
    sync_directory(path_);
    last();
    fs::rename(path_, output_);  // replaces an empty directory
    sync_directory(output_.parent_path());
  }

 private:
  // Those whose process lives are locked and stay.
  void remove_abandoned_stagings(const std::string& prefix) const {
    std::error_code error;
    const fs::path folder = output_.has_parent_path() ? output_.parent_path() : fs::path(".");
    std::vector<fs::path> found;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      if (name.starts_with(prefix) && name.find_first_not_of("0123456789", prefix.size()) == name.npos)
        found.push_back(it->path());
    }
    for (const auto& path : found) {
      const int lock = lock_directory(path, LOCK_EX);
      if (lock < 0) continue;
      fs::remove_all(path, error);
      ::close(lock);
    }
  }

  const fs::path output_;
  fs::path path_;
  int lock_ = -1;
};

void write_converted(const TensorSource& source, const TensorEntry& tensor, DType dtype,
                     ShardedWriter& writer) {
  const auto memory = memory_type(tensor.type);
  const bool as_it_is = !memory || !is_float(*memory) || *memory == dtype;
  constexpr std::int64_t kChunk = 1 << 20;  // elements
  const std::size_t to = stoa::size_of(dtype);
  const std::int64_t elements = tensor.elements();
  std::vector<std::byte> scratch,
      out(as_it_is ? 0 : static_cast<std::size_t>(std::min(kChunk, elements)) * to);
  for (std::int64_t done = 0; done < elements; done += kChunk) {
    const std::int64_t n = std::min(kChunk, elements - done);
    const auto piece = source.elements(tensor, done, done + n, scratch);
    if (as_it_is) {
      writer.write_elements(tensor.name, done, piece);
      continue;
    }
    const std::byte* data = piece.data();
    convert_elements(data, *memory, out.data(), dtype, n);
    const auto lost = count_non_finite(out.data(), dtype, n) - count_non_finite(data, *memory, n);
    require<DataError>(lost == 0,
                       "{} weights of tensor '{}' are beyond the range of {}: export as bf16 or fp32", lost,
                       tensor.name, name_of(dtype));
    writer.write_elements(tensor.name, done, std::span(out).first(static_cast<std::size_t>(n) * to));
  }
}

}  // namespace

std::string config_with_type(const fs::path& path, DType type) {
  const std::string dtype = torch_name(type);
  auto json = nlohmann::ordered_json::parse(read_text(path), nullptr, /*allow_exceptions=*/false);
  require<DataError>(json.is_object(), "'{}' is not a JSON object", path.string());
  json["dtype"] = dtype;        // transformers 5
  json["torch_dtype"] = dtype;  // transformers 4
  return json.dump(2) + "\n";
}

bool is_made_anew(const fs::path& path) {
  const std::string name = path.filename().string(), extension = path.extension().string();
  for (const char* e : {".safetensors", ".bin", ".pt", ".pth", ".h5", ".msgpack", ".gguf", ".onnx", ".ckpt"})
    if (extension == e) return true;
  return name == "config.json" || name == kModelChecksums || name == kZeroTracker ||
         name.ends_with(".index.json");
}

std::vector<std::string> small_file_names(const fs::path& directory) {
  std::vector<std::string> out;
  if (!fs::is_directory(directory)) return out;
  for (const fs::path folder : {"", kTemplateFolder})
    if (fs::is_directory(directory / folder))
      for (const auto& item : fs::directory_iterator(directory / folder))
        if (item.is_regular_file() && !is_made_anew(item.path()))
          out.push_back((folder / item.path().filename()).string());
  return out;
}

std::vector<SmallFile> small_files_of(const fs::path& directory) {
  std::vector<SmallFile> out;
  for (const std::string& name : small_file_names(directory))
    out.push_back({name, read_text(directory / name)});
  return out;
}

bool is_chat_template(const std::string& name) {
  return name == "chat_template.jinja" || fs::path(name).parent_path() == kTemplateFolder;
}

void write_elements_of(const TensorSource& source, ShardedWriter& writer, const ExportProgress& progress) {
  constexpr std::int64_t kPiece = 1 << 22;  // elements
  std::vector<std::byte> scratch;
  std::uint64_t done = 0;
  for (const TensorEntry* entry : source.entries())
    for (std::int64_t at = 0; at < entry->elements(); at += kPiece) {
      const auto bytes = source.elements(*entry, at, std::min(at + kPiece, entry->elements()), scratch);
      writer.write_elements(entry->name, at, bytes);
      done += bytes.size();
      if (progress) progress(done, source.bytes());
    }
}

ExportResult export_model(const FoundCheckpoint& from, DType dtype, const fs::path& given,
                          std::uint64_t max_shard_bytes, const ExportProgress& progress) {
  ExportContent content{config_with_type(from.model / "config.json", dtype), {}, nullptr};
  const auto source = open_weights(from.model);
  for (const auto* tensor : source->entries()) {
    TensorEntry entry = *tensor;
    if (const auto memory = memory_type(entry.type); memory && is_float(*memory))
      entry.type = storage_type(dtype);
    content.tensors.push_back(std::move(entry));
  }
  content.write = [&](ShardedWriter& writer) {
    std::uint64_t done = 0;
    for (const auto* tensor : source->entries()) {
      write_converted(*source, *tensor, dtype, writer);
      done += tensor->bytes();
      if (progress) progress(done, source->bytes());
    }
  };
  return export_content(from.model, content, given, max_shard_bytes, progress);
}

void write_complete(const fs::path& given, const std::function<void(const fs::path& staging)>& write,
                    const std::function<void()>& last) {
  fs::path output = fs::absolute(given).lexically_normal();
  if (!output.has_filename()) output = output.parent_path();
  require<IoError>(!fs::exists(output) || (fs::is_directory(output) && fs::is_empty(output)),
                   "'{}' exists and is not an empty directory: name a new one", given.string());
  Staging staging(output);
  write(staging.path());
  staging.publish(last);
}

void with_staging(const fs::path& output, const std::function<void(const fs::path& staging)>& use) {
  const Staging staging(output);
  use(staging.path());
}

ExportResult export_content(const fs::path& small_files, const ExportContent& content, const fs::path& output,
                            std::uint64_t max_shard_bytes, const ExportProgress& progress) {
  std::uint64_t total = 0;
  for (const TensorEntry& entry : content.tensors) total += entry.bytes();
  std::size_t shards = 0;
  const auto write = [&](const fs::path& staging) {
    ShardedWriter writer(staging, content.stem, content.tensors, WriteMode::kInPlace, max_shard_bytes);
    content.write(writer);
    writer.commit();
    shards = writer.shards();
    if (content.stem == kModelStem) write_model_checksums(staging, writer.checksums());
    write_text(staging / content.config_name, content.config);
    const auto add = [&](const SmallFile& file) {
      fs::create_directories((staging / file.name).parent_path());
      write_text(staging / file.name, file.text);
    };
    const bool own_tokenizer = std::ranges::any_of(
        content.texts, [](const SmallFile& file) { return file.name == "tokenizer_config.json"; });
    for (const SmallFile& file : small_files_of(small_files))
      if (!(own_tokenizer && is_chat_template(file.name))) add(file);
    for (const SmallFile& file : content.texts) add(file);
  };
  write_complete(output, write, [&] {
    if (progress) progress(total, total);
  });
  return {static_cast<std::int64_t>(content.tensors.size()), total, shards};
}

}  // namespace stoa::ckpt
