#include "curate/run/measures.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/escape.h"
#include "curate/io/input_files.h"
#include "curate/io/json_document.h"
#include "curate/run/shard_lines.h"

namespace stoa::curate {

void measure_stages(const Pipeline& pipeline, Document& document, Features& features, TagLine& line) {
  for (const NamedStage& stage : pipeline.stages) {
    Verdict verdict(Verdict::Mode::kMeasure);
    stage.stage->apply(document, features, verdict);
    for (const Verdict::Value& value : verdict.values()) line.add(stage.name, value);
  }
}

void append_measures(const Pipeline& pipeline, Document document, const fs::path& source, Features& features,
                     std::string& out) {
  features.reset(document.text);
  TagLine line(document.id, out);
  const std::size_t bytes = document.text.size();
  try {
    measure_stages(pipeline, document, features, line);
  } catch (const Error&) {  // a text that the run itself does not take that far, or puts into quarantine
  }
  std::string members = ",\"source\":";
  append_json_string(shown_path(source), members);
  if (const std::string language = string_member("language", document.metadata); !language.empty()) {
    members += ",\"language\":";
    append_json_string(language, members);
  }
  line.finish(bytes, members);
}

const Verdict::Value* MeasuredDocument::first_failure() const {
  const auto found =
      std::find_if(values.begin(), values.end(), [](const Verdict::Value& value) { return value.fails; });
  return found == values.end() ? nullptr : &*found;
}

std::vector<MeasuredDocument> read_measures(const fs::path& output, std::int64_t shards) {
  std::vector<MeasuredDocument> all;
  for (std::int64_t s = 0; s < shards; ++s) {
    ShardLines lines(output / fmt::format("{}/{:05}.jsonl", kMeasuresFolder, s));
    TagReader reader;
    while (!lines.at_end()) {
      const std::string_view line = lines.next();
      const TaggedDocument& tags = reader.read(line.substr(0, line.size() - 1), lines.readable());
      const auto json = nlohmann::json::parse(line, nullptr, false);
      require<DataError>(json.is_object(), "a line of measures is not a JSON object");
      all.push_back({json.value("id", ""), json.value("source", ""), json.value("language", ""), tags.bytes,
                     tags.values});
    }
  }
  return all;
}

}  // namespace stoa::curate
