#include "curate/run/second_pass.h"

#include <fmt/format.h>

#include "base/error.h"
#include "curate/dedup/record_sorter.h"
#include "curate/run/shard.h"
#include "curate/run/sidecar.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kBytesPerDocument =
    4 + 4 + 4 + 1 + 1;  // clusters, lengths or survivors, what is known of each

fs::path side_path(const fs::path& work, std::int64_t shard) {
  return work / fmt::format("side/{:05}.bin", shard);
}

// A line at a time.
class Lines {
 public:
  explicit Lines(const fs::path& path) : text_(fs::exists(path) ? read_text(path) : std::string()) {}
  std::string_view next() {
    const std::size_t end = text_.find('\n', at_);
    require<DataError>(end != text_.npos,
                       "a file of the run's work folder has too few lines; remove the output and run again");
    const std::string_view line(text_.data() + at_, end + 1 - at_);
    at_ = end + 1;
    return line;
  }

 private:
  const std::string text_;
  std::size_t at_ = 0;
};

// The line with further members at its end.
std::string with_members(std::string_view line, const std::string& members) {
  return fmt::format("{},{}}}\n", line.substr(0, line.size() - 2), members);
}

}  // namespace

Duplicates find_duplicates(const Pipeline& pipeline, const fs::path& work, std::int64_t shards,
                           std::size_t memory, Console& console) {
  Duplicates found;
  std::size_t documents = 0;
  for (std::int64_t s = 0; s < shards; ++s) documents += Sidecar(side_path(work, s)).kept();
  require<ConfigError>(
      documents * kBytesPerDocument <= memory / 2,
      "deduplication of {} documents needs {} besides what it sorts in; give at least --memory {:.2f}",
      documents, format_bytes(static_cast<double>(documents * kBytesPerDocument)),
      2e-9 * static_cast<double>(documents * kBytesPerDocument) + 0.01);
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
    std::vector<std::uint32_t> lengths(how.keep == Survivor::kLongest ? documents : 0);
    RecordSorter sorter(work / "sort", memory / 2);
    std::uint64_t document = 0;
    for (std::int64_t s = 0; s < shards; ++s) {
      Sidecar(side_path(work, s))
          .each(count, d, [&](std::uint32_t bytes, std::span<const std::uint64_t> keys) {
            if (!lengths.empty()) lengths[document] = bytes;
            if (!found.removed[document])
              for (const std::uint64_t key : keys) sorter.add({key, document});
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
    const std::vector<bool> removed = find_removed(clusters, how.keep, lengths);
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
                       const Duplicates& duplicates, const fs::path& output, Journal& journal,
                       Console& console, const std::stop_token& stop) {
  Progress progress(console, "write", static_cast<double>(first.shards().size()), " shards");
  std::size_t document = 0;
  for (std::int64_t s = 0; s < std::ssize(first.shards()); ++s) {
    const Sidecar side(side_path(work, s));
    if (s < std::ssize(journal.shards())) {
      document += side.kept();
      continue;
    }
    require<Interrupted>(!stop.stop_requested(),
                         "interrupted after {} shards; the same command continues from there",
                         journal.shards().size());
    const ShardRecord& before = first.shards()[static_cast<std::size_t>(s)];
    ShardRecord record{before.next, before.flow, {}};
    record.flow.kept = {};
    Lines lines[3] = {Lines(work / fmt::format("kept/{:05}.jsonl", s)),
                      Lines(work / fmt::format("dropped/{:05}.jsonl", s)),
                      Lines(work / fmt::format("quarantine/{:05}.jsonl", s))};
    std::vector<std::uint32_t> lengths;
    side.each(pipeline.deduplications.size(), 0,
              [&](std::uint32_t bytes, std::span<const std::uint64_t>) { lengths.push_back(bytes); });
    Shard shard(output, s);
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
      } else {
        record.flow.kept.add(bytes);
        shard.add(Fate::kKept, members.empty() ? std::string(line) : with_members(line, members));
      }
    }
    record.files = shard.commit();
    journal.add(std::move(record));
    progress.update(static_cast<double>(s + 1));
  }
  progress.finish();
}

}  // namespace stoa::curate
