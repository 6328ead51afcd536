#include "curate/run/cut_pass.h"

#include <fmt/format.h>

#include "base/error.h"
#include "curate/io/json_document.h"
#include "curate/run/shard_lines.h"

namespace stoa::curate {
namespace {

// Writes what CutTexts reads.
class TextWriter {
 public:
  explicit TextWriter(fs::path path)
      : path_(std::move(path)), file_(path_, std::ios::binary | std::ios::trunc) {
    require<IoError>(file_.is_open(), "cannot write '{}'", path_.string());
  }
  void add(const CutTexts::Text& text) {
    const std::uint64_t bytes = text.text.size();
    file_.write(reinterpret_cast<const char*>(&text.dropped_by), sizeof(text.dropped_by));
    file_.write(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    file_.write(text.text.data(), static_cast<std::streamsize>(bytes));
  }
  void finish() {
    file_.close();
    require<IoError>(!file_.fail(), "cannot write '{}': is the disk full?", path_.string());
  }

 private:
  const fs::path path_;
  std::ofstream file_;
};

// The texts that deduplication keeps.
void write_kept(const fs::path& work, std::int64_t shards, const Duplicates& duplicates,
                const fs::path& path) {
  TextWriter writer(path);
  JsonDocuments json("text", "id");
  Document document;
  std::size_t number = 0;
  for (std::int64_t s = 0; s < shards; ++s) {
    ShardLines lines(work / fmt::format("kept/{:05}.jsonl", s));
    while (!lines.at_end()) {
      const std::string_view line = lines.next();
      if (duplicates.removed[number++]) continue;
      json.read(line.substr(0, line.size() - 1), lines.readable(), document);
      writer.add({CutTexts::kNotDropped, document.text});
    }
  }
  writer.finish();
}

}  // namespace

CutTexts::CutTexts(const fs::path& path) : path_(path), file_(path, std::ios::binary) {
  require<IoError>(file_.is_open(), "cannot read '{}'", path_.string());
}

bool CutTexts::next(Text& text) {
  std::uint64_t bytes = 0;
  if (!file_.read(reinterpret_cast<char*>(&text.dropped_by), sizeof(text.dropped_by))) return false;
  file_.read(reinterpret_cast<char*>(&bytes), sizeof(bytes));
  require<IoError>(file_.good(), "'{}' ends too soon", path_.string());
  text.text.resize(bytes);
  file_.read(text.text.data(), static_cast<std::streamsize>(bytes));
  require<IoError>(file_.good(), "'{}' ends too soon", path_.string());
  return true;
}

void CutTexts::skip(std::uint64_t texts) {
  Text text;
  for (std::uint64_t i = 0; i < texts; ++i)
    require<IoError>(next(text), "'{}' ends too soon", path_.string());
}

fs::path cut_copies(const Pipeline& pipeline, const fs::path& work, std::int64_t shards,
                    const Duplicates& duplicates, std::size_t memory, Console& console,
                    const std::stop_token& stop) {
  const fs::path folder = work / "cut";
  fs::remove_all(folder);  // of a run that was ended
  fs::create_directories(folder);
  fs::path path = folder / "texts-0";
  write_kept(work, shards, duplicates, path);
  for (std::size_t c = 0; c < pipeline.cuts.size(); ++c) {
    const fs::path own = folder / fmt::format("files-{}", c), next = folder / fmt::format("texts-{}", c + 1);
    fs::create_directories(own);
    const auto cutter = pipeline.cuts[c].make({own, memory});
    const int passes = cutter->passes();
    Progress progress(console, pipeline.cuts[c].name, passes + 1, " passes");
    CutTexts::Text text;
    const auto each = [&](auto&& visit) {
      for (CutTexts texts(path); texts.next(text);) {
        require<Interrupted>(!stop.stop_requested(), "interrupted; the same command continues");
        visit();
      }
    };
    for (int pass = 0; pass < passes; ++pass) {
      each([&] {
        if (text.dropped_by == CutTexts::kNotDropped) cutter->see(pass, text.text);
      });
      cutter->end_pass(pass);
      progress.update(pass + 1);
    }
    TextWriter writer(next);
    each([&] {
      if (text.dropped_by == CutTexts::kNotDropped && !cutter->cut(text.text))
        text.dropped_by = static_cast<std::uint32_t>(c);
      writer.add(text);
    });
    writer.finish();
    progress.finish();
    fs::remove(path);
    path = next;
  }
  return path;
}

}  // namespace stoa::curate
