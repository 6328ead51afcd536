#include "curate/run/second_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "curate/dedup/record_sorter.h"
#include "curate/io/json_document.h"
#include "curate/run/cut_pass.h"
#include "curate/run/measures.h"
#include "curate/run/shard.h"
#include "curate/run/shard_lines.h"
#include "curate/run/sidecar.h"
#include "data/text_reader.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kProgramBytes = std::size_t{64} << 20;  // its code, tables and buffers

fs::path side_path(const fs::path& work, std::int64_t shard) {
  return work / fmt::format("side/{:05}.bin", shard);
}

// Adds a document with the text that the cutters left of it.
void add_cut(const Pipeline& pipeline, CutTexts& texts, std::string_view line, const std::string& members,
             std::int64_t bytes, Flow& flow, Shard& shard) {
  CutTexts::Text left;
  require<DataError>(texts.next(left), "the texts of the run's work folder end too soon; run again");
  if (left.dropped_by != CutTexts::kNotDropped) {
    const std::string reason = pipeline.cuts.at(left.dropped_by).name + "/nothing_new";
    flow.dropped[reason].add(bytes);
    std::string with_reason = fmt::format("\"reason\":\"{}\"", reason);
    if (!members.empty()) with_reason += "," + members;
    shard.add(Fate::kDropped, with_members(line, with_reason));
    return;
  }
  flow.kept.add(static_cast<std::int64_t>(left.text.size()));
  std::string written(line);
  if (std::ssize(left.text) != bytes) {  // what is cut is never put back
    flow.cut.add(bytes - std::ssize(left.text));
    written.append(data::kBlockPadding, '\0');
    Document document;
    JsonDocuments("text", "id")
        .read(std::string_view(written).substr(0, line.size() - 1), written.size(), document);
    document.text = std::move(left.text);
    written.clear();
    append_json_line(document, "", written);
  }
  shard.add(Fate::kKept, members.empty() ? written : with_members(written, members));
}

}  // namespace

std::size_t bytes_per_document(const Pipeline& pipeline) {
  const bool ranked = std::any_of(pipeline.deduplications.begin(), pipeline.deduplications.end(),
                                  [](const Deduplication& how) { return how.keep != Survivor::kFirst; });
  // Clusters of one way and of all, by which one it goes, bits; ranks and whose is the largest.
  return 4 + 4 + 1 + 1 + (ranked ? 4 + 4 : 0);
}

Duplicates find_duplicates(const Pipeline& pipeline, const fs::path& work, std::int64_t shards,
                           std::size_t memory, Console& console) {
  Duplicates found;
  std::size_t documents = 0;
  for (std::int64_t s = 0; s < shards; ++s) documents += Sidecar(side_path(work, s)).kept();
  const std::size_t held = documents * bytes_per_document(pipeline);
  require<ConfigError>(
      held <= memory / 2,
      "deduplication of {} documents needs {} besides what it sorts in; give at least --memory {:.2f}",
      documents, format_bytes(static_cast<double>(held)), 2e-9 * static_cast<double>(held) + 0.01);
  // What is left when the program itself has taken its part; half of it, as allocators are.
  const std::size_t sorted = (memory - held - std::min((memory - held) / 3, kProgramBytes)) / 2;
  found.removed.resize(documents);
  found.in_cluster.resize(documents);
  found.by.resize(documents);
  found.cluster.resize(documents);
  fs::create_directories(work / "sort");
  const std::size_t count = pipeline.deduplications.size();
  for (std::size_t d = 0; d < count; ++d) {
    const Deduplication& how = pipeline.deduplications[d];
    Progress progress(console, how.name, static_cast<double>(shards), " shards");
    Clusters clusters(documents);
    std::vector<std::uint32_t> ranks(how.keep == Survivor::kFirst ? 0 : documents);
    RecordSorter sorter(work / "sort", sorted);
    std::uint64_t document = 0;
    for (std::int64_t s = 0; s < shards; ++s) {
      Sidecar(side_path(work, s)).each(count, d, [&](std::uint32_t, const SideEntry& entry) {
        if (!ranks.empty()) ranks[document] = entry.rank;
        if (!found.removed[document])
          for (const std::uint64_t key : entry.keys) sorter.add({key, document});
        ++document;
      });
      progress.update(static_cast<double>(s + 1));
    }
    KeyRecord last;
    bool has_last = false;
    sorter.each([&](const KeyRecord& record) {
      if (has_last && record.key == last.key)
        clusters.join(static_cast<std::uint32_t>(last.document), static_cast<std::uint32_t>(record.document));
      last = record;
      has_last = true;
    });
    const std::vector<bool> removed = find_removed(clusters, ranks);
    for (std::uint32_t i = 0; i < documents; ++i) {
      if (found.removed[i]) continue;
      const std::uint32_t root = clusters.root(i);
      if (root != i) found.in_cluster[i] = found.in_cluster[root] = true;
      if (root != i || !found.in_cluster[i]) found.cluster[i] = root;
      if (root == i) found.cluster[i] = i;
      if (removed[i]) {
        found.removed[i] = true;
        found.by[i] = static_cast<std::uint8_t>(d);
      }
    }
    progress.finish();
  }
  return found;
}

void write_second_pass(const Pipeline& pipeline, const fs::path& work, const Journal& first,
                       const Duplicates& duplicates, const fs::path& texts, const fs::path& output,
                       Journal& journal, Console& console, const std::stop_token& stop) {
  Progress progress(console, "write", static_cast<double>(first.shards().size()), " shards");
  std::size_t document = 0;
  std::optional<CutTexts> cut;
  if (!texts.empty()) cut.emplace(texts);
  for (std::int64_t s = 0; s < std::ssize(first.shards()); ++s) {
    const Sidecar side(side_path(work, s));
    if (s < std::ssize(journal.shards())) {
      if (cut)
        for (std::size_t i = document; i < document + side.kept(); ++i)
          cut->skip(duplicates.removed[i] ? 0 : 1);
      document += side.kept();
      continue;
    }
    require<Interrupted>(!stop.stop_requested(),
                         "interrupted after {} shards; the same command continues from there",
                         journal.shards().size());
    const ShardRecord& before = first.shards()[static_cast<std::size_t>(s)];
    ShardRecord record{before.next, before.flow, {}};
    record.flow.kept = {};
    ShardLines lines[3] = {ShardLines(work / fmt::format("kept/{:05}.jsonl", s)),
                           ShardLines(work / fmt::format("dropped/{:05}.jsonl", s)),
                           ShardLines(work / fmt::format("quarantine/{:05}.jsonl", s))};
    std::vector<std::uint32_t> lengths;
    side.each(pipeline.deduplications.size(), 0,
              [&](std::uint32_t bytes, const SideEntry&) { lengths.push_back(bytes); });
    Shard shard(output, s, kMeasuresFolder);
    std::size_t kept = 0;
    for (const char f : side.fates()) {
      const auto fate = static_cast<Fate>(f);
      const std::string_view line = lines[static_cast<std::size_t>(f)].next();
      if (fate != Fate::kKept) {
        shard.add(fate, line);
        continue;
      }
      const std::int64_t bytes = lengths[kept++];
      const std::size_t number = document++;
      std::string members;
      if (duplicates.in_cluster[number])
        members = fmt::format("\"duplicate_cluster\":{}", duplicates.cluster[number]);
      if (duplicates.removed[number]) {
        const std::string reason = pipeline.deduplications[duplicates.by[number]].name + "/duplicate";
        record.flow.dropped[reason].add(bytes);
        shard.add(Fate::kDropped, with_members(line, fmt::format("\"reason\":\"{}\",{}", reason, members)));
      } else if (!cut) {
        record.flow.kept.add(bytes);
        shard.add(Fate::kKept, members.empty() ? std::string(line) : with_members(line, members));
      } else {
        add_cut(pipeline, *cut, line, members, bytes, record.flow, shard);
      }
    }
    ShardLines measures(work / fmt::format("{}/{:05}.jsonl", kMeasuresFolder, s));
    while (!measures.at_end()) shard.add_tags(measures.next());
    record.files = shard.commit();
    journal.add(std::move(record));
    progress.update(static_cast<double>(s + 1));
  }
  progress.finish();
}

}  // namespace stoa::curate
