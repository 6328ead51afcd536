#include "ckpt/tensor_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "ckpt/safetensors_writer.h"

namespace stoa::ckpt {
namespace {

constexpr std::string_view kFormat = "stoa-tensor-dump";
constexpr int kVersion = 1;
constexpr std::size_t kFileBytes = std::size_t{64} << 20;  // collected before a file is written
constexpr std::array<std::string_view, 4> kPhases{"weights", "forward", "backward", "gradients"};

std::string index_name(int rank) { return fmt::format("rank-{:05}.jsonl", rank); }

bool is_index(const fs::path& path) {
  return path.filename().string().starts_with("rank-") && path.extension() == ".jsonl";
}

// A line of an index: its values with an error that names the place.
class Line {
 public:
  Line(const fs::path& path, std::int64_t number, std::string_view text)
      : place_(fmt::format("{}:{}", path.string(), number)),
        json_(nlohmann::json::parse(text, nullptr, false)) {
    check(json_.is_object(), "is not a JSON object (cut off?)");
  }

  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) [[unlikely]]
      fail<DataError>("{}: {}", place_, fmt::format(format, std::forward<Args>(args)...));
  }
  bool has(const char* key) const { return json_.contains(key); }
  std::string text(const char* key) const {
    check(has(key) && json_[key].is_string(), "'{}' is missing or not a text", key);
    return json_[key].get<std::string>();
  }
  std::string text(const char* key, const char* otherwise) const { return has(key) ? text(key) : otherwise; }
  std::int64_t integer(const char* key, std::int64_t least = 0) const {
    check(has(key) && json_[key].is_number_integer(), "'{}' is missing or not an integer", key);
    const auto value = json_[key].get<std::int64_t>();
    check(value >= least && value <= std::int64_t{1} << 53, "'{}' is {}", key, value);
    return value;
  }
  std::optional<double> real(const char* key) const {
    if (!has(key) || json_[key].is_null()) return std::nullopt;
    check(json_[key].is_number(), "'{}' is not a number", key);
    return json_[key].get<double>();
  }
  std::vector<std::int64_t> sizes(const char* key) const {
    check(has(key) && json_[key].is_array() && json_[key].size() <= 8, "'{}' is missing or not a list", key);
    std::vector<std::int64_t> out;
    for (const auto& item : json_[key]) {
      check(item.is_number_integer() && item.get<std::int64_t>() >= 0, "'{}' holds {}", key, item.dump());
      out.push_back(item.get<std::int64_t>());
    }
    return out;
  }

 private:
  const std::string place_;
  const nlohmann::json json_;
};

DumpHeader header_of(const Line& line) {
  line.check(line.text("format", "") == kFormat,
             "is not the head of a tensor dump: expected {{\"format\": \"{}\"", kFormat);
  line.check(line.integer("version") == kVersion, "version {}, this program reads version {}",
             line.integer("version"), kVersion);
  DumpHeader header;
  header.rank = static_cast<int>(line.integer("rank"));
  header.ranks = static_cast<int>(line.integer("ranks", 1));
  line.check(header.rank < header.ranks && header.ranks <= 1'000'000, "rank {} of {}", header.rank,
             header.ranks);
  header.layout = line.text("layout", "");
  header.compute = line.text("compute");
  header.writer = line.text("writer", "");
  header.layers = line.integer("layers");
  if (line.has("length")) header.length = line.integer("length");
  return header;
}

DumpRecord record_of(const Line& line) {
  DumpRecord r;
  r.step = line.integer("step", 1);
  const std::string phase = line.text("phase");
  const auto found = std::find(kPhases.begin(), kPhases.end(), phase);
  line.check(found != kPhases.end(), "phase '{}', expected weights, forward, backward or gradients", phase);
  r.phase = static_cast<DumpPhase>(found - kPhases.begin());
  if (line.has("microbatch")) r.microbatch = line.integer("microbatch", -1);
  r.layer = line.integer("layer", -1);
  r.tensor = line.text("tensor");
  const std::string type = line.text("dtype");
  const auto storage = storage_type_from_name(type);
  line.check(storage.has_value() && memory_type(*storage).has_value(), "dtype '{}' is not known", type);
  r.type = *storage;
  r.global = line.sizes("global");
  r.begin = line.sizes("begin");
  r.shape = line.sizes("shape");
  line.check(r.global.size() == r.begin.size() && r.global.size() == r.shape.size(),
             "global, begin and shape of '{}' have {}, {} and {} dimensions", r.tensor, r.global.size(),
             r.begin.size(), r.shape.size());
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < r.global.size(); ++d) {
    line.check(r.begin[d] <= r.global[d] && r.shape[d] <= r.global[d] - r.begin[d],
               "'{}': {} from {} on is beyond the {} of dimension {}", r.tensor, r.shape[d], r.begin[d],
               r.global[d], d);
    line.check(
        r.global[d] == 0 || elements <= (std::int64_t{1} << 53) / std::max<std::int64_t>(1, r.global[d]),
        "'{}' is too large", r.tensor);
    elements *= std::max<std::int64_t>(1, r.global[d]);
  }
  r.scale = line.real("scale").value_or(1.0);
  line.check(r.scale > 0, "scale of '{}' is {}", r.tensor, r.scale);
  r.file = line.text("file");
  const fs::path file(r.file);
  line.check(!r.file.empty() && file.is_relative() &&
                 std::find(file.begin(), file.end(), fs::path("..")) == file.end(),
             "file '{}' is not within the dump", r.file);
  r.key = line.text("key");
  return r;
}

}  // namespace

std::string_view name_of(DumpPhase phase) { return kPhases[static_cast<std::size_t>(phase)]; }

std::int64_t DumpRecord::elements() const {
  std::int64_t n = 1;
  for (const auto size : shape) n *= size;
  return n;
}

DumpWriter::DumpWriter(fs::path directory, DumpHeader header)
    : directory_(std::move(directory)), header_(std::move(header)) {
  std::error_code error;
  fs::create_directories(directory_, error);
  remove_abandoned(directory_);
  const fs::path path = directory_ / index_name(header_.rank);
  index_.open(path, std::ios::trunc);
  require<IoError>(!error && index_.good(), "cannot write '{}'", path.string());
  index_ << nlohmann::ordered_json{{"format", kFormat},        {"version", kVersion},
                                   {"rank", header_.rank},     {"ranks", header_.ranks},
                                   {"layout", header_.layout}, {"compute", header_.compute},
                                   {"writer", header_.writer}, {"layers", header_.layers},
                                   {"length", header_.length}}
                .dump()
         << '\n';
}

DumpWriter::~DumpWriter() = default;

void DumpWriter::add(DumpRecord record, std::vector<std::byte> bytes) {
  require<InternalError>(bytes.size() == static_cast<std::size_t>(record.elements()) * size_of(record.type),
                         "'{}': {} bytes for {} elements", record.tensor, bytes.size(), record.elements());
  if (record.step != step_) {
    step_ = record.step;
    written_ = files_ = 0;
  }
  waiting_bytes_ += bytes.size();
  waiting_.emplace_back(std::move(record), std::move(bytes));
  if (waiting_bytes_ >= kFileBytes) flush();
}

void DumpWriter::flush() {
  if (waiting_.empty()) return;
  const fs::path folder = fmt::format("step-{:07}", step_);
  std::error_code error;
  fs::create_directories(directory_ / folder, error);
  require<IoError>(!error, "cannot create '{}': {}", (directory_ / folder).string(), error.message());
  const std::string file =
      (folder / fmt::format("rank-{:05}-{:04}.safetensors", header_.rank, files_++)).string();
  std::vector<TensorEntry> entries;
  std::set<std::string> keys;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    auto& record = waiting_[i].first;
    record.file = file;
    record.key = fmt::format("{}/{}/{}", name_of(record.phase), record.microbatch, record.tensor);
    // Several boxes of one tensor (fused or cut ones) need names of their own.
    for (const auto start : record.begin)
      record.key += fmt::format("{}{}", &start == record.begin.data() ? "@" : ",", start);
    // What one chunk of a rank hands to its next is seen twice.
    for (int again = 2; !keys.insert(record.key).second; ++again) record.key += fmt::format("#{}", again);
    TensorEntry entry;
    entry.name = record.key;
    entry.type = record.type;
    entry.shape = record.shape;
    entries.push_back(std::move(entry));
  }
  SafetensorsWriter writer(directory_ / file, SafetensorsLayout(std::move(entries)), WriteMode::kAtomic);
  for (const auto& [record, bytes] : waiting_) writer.write_bytes(record.key, bytes);
  writer.commit();
  for (const auto& [r, bytes] : waiting_) {
    nlohmann::ordered_json line{{"step", r.step},
                                {"phase", name_of(r.phase)},
                                {"microbatch", r.microbatch},
                                {"layer", r.layer},
                                {"tensor", r.tensor},
                                {"dtype", name_of(r.type)},
                                {"global", r.global},
                                {"begin", r.begin},
                                {"shape", r.shape},
                                {"file", r.file},
                                {"key", r.key}};
    if (r.scale != 1) line["scale"] = r.scale;
    index_ << line.dump() << '\n';
  }
  written_ += static_cast<std::int64_t>(waiting_.size());
  waiting_.clear();
  waiting_bytes_ = 0;
}

void DumpWriter::end_step(const DumpStepEnd& end) {
  flush();
  nlohmann::ordered_json line{{"end_of_step", end.step}, {"tensors", written_}};
  if (end.loss) line["loss"] = *end.loss;
  if (end.rate) line["rate"] = *end.rate;
  index_ << line.dump() << '\n' << std::flush;
  require<IoError>(index_.good(), "cannot write the index of the tensor dump in '{}' (disk full?)",
                   directory_.string());
}

bool DumpReader::exists(const fs::path& directory) {
  if (!fs::is_directory(directory)) return false;
  return std::any_of(fs::directory_iterator(directory), fs::directory_iterator(),
                     [](const auto& entry) { return is_index(entry.path()); });
}

DumpReader::DumpReader(fs::path directory) : directory_(std::move(directory)) {
  std::vector<fs::path> found;
  if (fs::is_directory(directory_))
    for (const auto& entry : fs::directory_iterator(directory_))
      if (is_index(entry.path())) found.push_back(entry.path());
  require<IoError>(
      !found.empty(),
      "no tensor dump in '{}' (no rank-00000.jsonl): `stoa train … --dump-tensors STEPS` writes one",
      directory_.string());
  std::sort(found.begin(), found.end());
  for (const auto& path : found) read_index(path);
  const int ranks = headers_.front().ranks;
  for (int rank = 0; rank < static_cast<int>(headers_.size()); ++rank)
    require<DataError>(headers_[rank].rank == rank && headers_[rank].ranks == ranks,
                       "'{}': the indices are not those of one run: rank {} of {} and rank {} of {}",
                       directory_.string(), headers_[rank].rank, headers_[rank].ranks, 0, ranks);
  require<DataError>(static_cast<int>(headers_.size()) == ranks,
                     "'{}' is a dump of {} ranks, but '{}' is missing", directory_.string(), ranks,
                     index_name(static_cast<int>(headers_.size())));
  for (auto it = records_.begin(); it != records_.end();) {
    const auto end = ends_.find(it->first);
    const std::size_t done = end == ends_.end() ? 0 : end->second.size();
    if (done == headers_.size()) {
      ++it;
      continue;
    }
    notes_.push_back(
        fmt::format("'{}': {} of {} ranks finished step {} (stopped while it was written?): skipped",
                    directory_.string(), done, headers_.size(), it->first));
    it = records_.erase(it);
  }
}

void DumpReader::read_index(const fs::path& path) {
  const std::string text = read_text(path);
  const int rank = static_cast<int>(headers_.size());
  std::map<std::int64_t, std::int64_t> counts;
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view body(text.data() + begin, end - begin);
    begin = end + 1;
    ++number;
    // A kill may tear the last line; the step that it belongs to has no end then.
    if (end == text.size() && number > 1 && !nlohmann::json::accept(body)) break;
    if (body.find_first_not_of(" \t\r") == body.npos) continue;
    const Line line(path, number, body);
    if (number == 1) {
      headers_.push_back(header_of(line));
    } else if (line.has("end_of_step")) {
      DumpStepEnd done{line.integer("end_of_step", 1), line.integer("tensors"), line.real("loss"),
                       line.real("rate")};
      line.check(counts[done.step] == done.tensors, "step {} has {} tensors, its end says {}", done.step,
                 counts[done.step], done.tensors);
      records_[done.step];
      ends_[done.step].push_back(done);
    } else {
      DumpRecord record = record_of(line);
      record.rank = rank;
      record.order = number;
      ++counts[record.step];
      records_[record.step].push_back(std::move(record));
    }
  }
  require<DataError>(number > 0, "'{}' is empty: it is not a tensor dump", path.string());
}

std::vector<std::int64_t> DumpReader::steps() const {
  std::vector<std::int64_t> out;
  for (const auto& [step, records] : records_) out.push_back(step);
  return out;
}

const std::vector<DumpRecord>& DumpReader::records(std::int64_t step) const {
  const auto found = records_.find(step);
  require<DataError>(found != records_.end(), "'{}' holds no step {}", directory_.string(), step);
  return found->second;
}

std::optional<DumpStepEnd> DumpReader::end(std::int64_t step) const {
  const auto found = ends_.find(step);
  if (found == ends_.end()) return std::nullopt;
  for (const auto& end : found->second)
    if (end.rate || end.loss) return end;
  return found->second.front();
}

std::span<const std::byte> DumpReader::bytes(const DumpRecord& record) {
  auto& file = files_[record.file];
  if (!file) file = std::make_unique<SafetensorsFile>(directory_ / record.file);
  const StoredTensor* tensor = file->find(record.key);
  require<DataError>(tensor != nullptr, "'{}' does not hold '{}', which the index of rank {} names",
                     file->path().string(), record.key, record.rank);
  require<DataError>(tensor->entry.type == record.type && tensor->entry.shape == record.shape,
                     "'{}': '{}' is {} {}, the index says {}", file->path().string(), record.key,
                     name_of(tensor->entry.type), tensor->entry.shape_text(), name_of(record.type));
  return tensor->bytes;
}

}  // namespace stoa::ckpt
