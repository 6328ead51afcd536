#include "plan/rows.h"

#include <algorithm>
#include <cmath>
#include <regex>

#include "base/error.h"
#include "config/value.h"

namespace stoa::plan {
namespace {

// Access to the fields of one row by name.
class Fields {
 public:
  Fields(const CsvTable& table, const std::vector<std::string>& cells, Row& row)
      : table_(table), cells_(cells), row_(row) {}

  std::string text(const char* name) const {
    const int at = table_.column(name);
    return at < 0 ? std::string() : cells_[static_cast<std::size_t>(at)];
  }
  std::optional<double> number(const char* name) const {
    const std::string cell = text(name);
    if (cell.empty() || cell == "unknown") return std::nullopt;
    const auto value = config::parse_real(cell);
    if (!value) problem(fmt::format("{} is '{}', expected a number", name, cell));
    return value;
  }
  // If blank: `otherwise`, with a note described by `words`.
  std::int64_t count(const char* name, std::int64_t otherwise, const std::string& words) const {
    const auto value = number(name);
    if (!value) {
      if (!words.empty()) row_.notes.push_back(fmt::format("{} {}", name, words));
      return otherwise;
    }
    if (*value < 1 || *value != std::floor(*value))
      problem(fmt::format("{} is {}, expected a whole number of at least 1", name, *value));
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(*value));
  }
  std::int64_t needed(const char* name) const {
    if (text(name).empty()) problem(fmt::format("{} is blank", name));
    return count(name, 1, "");
  }
  bool has(const char* name, const char* part) const { return text(name).find(part) != std::string::npos; }

 private:
  void problem(std::string words) const {
    if (row_.problem.empty()) row_.problem = std::move(words);
  }

  const CsvTable& table_;
  const std::vector<std::string>& cells_;
  Row& row_;
};

void read_model(const Fields& f, const SoftwareProfiles& profiles, const std::string& text, Row& row) {
  ModelShape& m = row.workload.model;
  m.layers = f.needed("layers");
  m.hidden = f.needed("hidden");
  m.heads = f.needed("heads");
  m.head_size = m.heads > 0 ? m.hidden / m.heads : 0;
  m.kv_heads = m.heads;
  m.sequence = f.needed("seq_len");
  m.ffn = f.count("ffn_hidden", 4 * m.hidden, "taken as 4 x hidden");
  m.vocabulary = static_cast<std::int64_t>(f.number("vocab").value_or(0));
  profiles.describe(row.model, text, m);
  // Programs from before fused attention trained with dropout by default.
  if (row.workload.software.attention == AttentionKernel::kUnfused) m.dropout = 0.1;
  m.kv_heads = std::min(m.kv_heads, m.heads);
  if (m.vocabulary == 0) {
    m.vocabulary = 51200;
    row.notes.emplace_back("vocab taken as 51200");
  }
}

void read_recompute(const std::string& text, Row& row) {
  Workload& w = row.workload;
  if (text.rfind("full", 0) == 0) w.recompute = Recompute::kFull;
  if (text.rfind("selective", 0) == 0) w.recompute = Recompute::kSelective;
  if (text.find("(op)") != std::string::npos) w.recompute = Recompute::kOperators;
  if (text.empty() || text == "unknown") row.notes.emplace_back("recompute taken as none");
  if (text.find("every other layer") != std::string::npos) {
    w.recompute = Recompute::kFull;
    w.recomputed_share = 0.5;
  }
  if (text.find("some microbatches") != std::string::npos) w.recomputed_share = 0.5;
  std::smatch found;
  if (std::regex_search(text, found, std::regex(R"(\((\d+) of (\d+) layers)")))
    w.recomputed_share = std::stod(found[1]) / std::stod(found[2]);
}

void read_sharding(const std::string& text, Row& row) {
  Workload& w = row.workload;
  if (text.rfind("yes", 0) == 0) w.zero_stage = 1;
  if (text.empty() || text == "unknown") row.notes.emplace_back("distributed_optimizer taken as no");
  if (text.find("FSDP") != std::string::npos) w.zero_stage = 3;
  std::smatch found;
  if (std::regex_search(text, found, std::regex(R"(ZeRO-(\d))")))
    w.zero_stage = std::min(3, std::stoi(found[1]));
  if (std::regex_search(text, found, std::regex(R"(over (\d+))"))) w.shard_ranks = std::stoll(found[1]);
  w.reshard = text.find("SHARD_GRAD_OP") == std::string::npos;
}

void read_layout(const Fields& f, Row& row) {
  Workload& w = row.workload;
  w.tp = f.needed("tp");
  w.pp = f.needed("pp");
  w.vpp = f.count("vpp", 1, w.pp > 1 ? "taken as 1" : "");
  w.cp = f.count("cp", 1, "");
  w.ep = f.count("ep", 1, "");
  const std::int64_t devices = f.needed("gpus");
  const std::int64_t each = w.tp * w.pp * w.cp;
  w.dp = f.count("dp", std::max<std::int64_t>(1, devices / each), "taken as gpus / (tp x pp x cp)");
  if (each * w.dp != devices)
    row.notes.push_back(fmt::format("tp x pp x cp x dp is {}, gpus are {}", each * w.dp, devices));
  w.micro_batch = f.count("micro_batch", 1, "taken as 1");
  w.global_batch =
      f.count("global_batch", w.dp * w.micro_batch * 4 * w.pp, "taken as 4 microbatches per stage");
  // Some sources round the batch down, others state one that the layout cannot have.
  const std::int64_t step = w.dp * w.micro_batch;
  if (w.global_batch % step != 0) {
    const std::int64_t made = std::max<std::int64_t>(1, (w.global_batch + step / 2) / step) * step;
    row.notes.push_back(fmt::format("global_batch {} cannot be made by {} ranks x {}: {}", w.global_batch,
                                    w.dp, w.micro_batch, made));
    w.global_batch = made;
  }
  w.sequence_parallel = f.text("sequence_parallel") == "yes";
  // Megatron and programs based on it pad the vocabulary to a multiple of 128 per tensor-parallel rank.
  const std::int64_t multiple = 128 * w.tp;
  w.model.vocabulary = (w.model.vocabulary + multiple - 1) / multiple * multiple;
}

// If the layers divide only with embedding and head counted as one each, the ends have one layer less: the
// rule of Zero Bubble, BigScience and Llama 3.
void read_split(Row& row) {
  Workload& w = row.workload;
  const std::int64_t chunks = w.pp * w.vpp;
  if (chunks < 3 || w.model.layers % chunks == 0 || (w.model.layers + 2) % chunks != 0) return;
  w.chunk_layers.assign(static_cast<std::size_t>(chunks), (w.model.layers + 2) / chunks);
  --w.chunk_layers.front();
  --w.chunk_layers.back();
}

Row read_row(const CsvTable& table, const std::vector<std::string>& cells, std::span<const Cluster> clusters,
             const SoftwareProfiles& profiles) {
  Row row;
  const Fields f(table, cells, row);
  row.source = f.text("source");
  row.model = f.text("model");
  row.grade = f.text("grade");
  row.group = f.text("file").empty() ? row.source : f.text("file");
  row.seconds = f.number("seconds_per_step");
  row.memory_gb = f.number("memory_gb_per_gpu");
  const std::string text = row.model + " | " + f.text("precision") + " | " + f.text("recompute") + " | " +
                           f.text("distributed_optimizer") + " | " + f.text("note");
  const auto stated = profiles.of(row.source, text);
  if (!stated.known) row.notes.emplace_back("source not in the table of programs: flags of stoa taken");
  row.workload.software = stated.software;
  row.independent = stated.independent;
  row.workload.schedule = stated.schedule;
  try {
    row.cluster = find_device(clusters, f.text("gpu"));
    if (!stated.cluster.empty()) {
      const auto at = std::find_if(clusters.begin(), clusters.end(),
                                   [&](const Cluster& c) { return c.name == stated.cluster; });
      require<ConfigError>(at != clusters.end(), "no cluster '{}'", stated.cluster);
      const DeviceSheet device = row.cluster.device;
      row.cluster = *at;
      row.cluster.device = device;
    }
  } catch (const ConfigError& error) {
    row.problem = error.what();
    return row;
  }
  if (const auto per_node = f.number("gpus_per_node")) {
    Links& links = row.cluster.links;
    if (links.devices_per_island == links.devices_per_node)
      links.devices_per_island = static_cast<std::int64_t>(*per_node);
    links.devices_per_node = static_cast<std::int64_t>(*per_node);
  }
  read_model(f, profiles, text, row);
  read_layout(f, row);
  read_recompute(f.text("recompute"), row);
  read_sharding(f.text("distributed_optimizer"), row);
  read_split(row);
  const DeviceSheet& device = row.cluster.device;
  const std::string precision = f.text("precision");
  const bool half =
      precision.find("fp16") != std::string::npos && precision.find("bf16") == std::string::npos;
  row.workload.format = precision.find("fp8") != std::string::npos ? Format::kFp8
                        : precision.find("fp32") == 0              ? Format::kFp32
                        : half || device.bf16_tflops <= 0          ? Format::kFp16
                                                                   : Format::kBf16;
  if (precision.empty()) row.notes.emplace_back("precision taken as 16 bit");
  if (row.problem.empty()) {
    try {
      validate(row.workload);
      // The programs of published rows cannot split heads unevenly.
      const Workload& w = row.workload;
      require<ConfigError>(
          w.model.heads % w.tp == 0,
          "{} attention heads cannot be split over tensor_model_parallel_size {}: it must divide them",
          w.model.heads, w.tp);
      row.cluster.peak(row.workload.format);
    } catch (const ConfigError& error) {
      row.problem = error.what();
    }
  }
  return row;
}

}  // namespace

std::vector<Row> read_rows(const CsvTable& table, std::span<const Cluster> clusters,
                           const SoftwareProfiles& profiles) {
  std::string missing;
  for (const char* name : {"source", "model", "layers", "hidden", "heads", "seq_len", "gpu", "gpus", "tp",
                           "pp", "micro_batch", "global_batch"})
    if (table.column(name) < 0) missing += (missing.empty() ? "" : ", ") + std::string(name);
  require<ConfigError>(missing.empty(), "the rows have no column {}; they have {}", missing,
                       fmt::join(table.header, ", "));
  std::vector<Row> rows;
  rows.reserve(table.rows.size());
  for (const auto& cells : table.rows) rows.push_back(read_row(table, cells, clusters, profiles));
  return rows;
}

}  // namespace stoa::plan
