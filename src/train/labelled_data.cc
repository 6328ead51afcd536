#include "train/labelled_data.h"

#include "data/labelled_dataset.h"
#include "data/splits.h"
#include "data/text_reader.h"
#include "infer/question_windows.h"

namespace stoa::train {
namespace {

using data::LabelledRow, data::LabelledSource;

struct Line {
  LabelledSource source;
  std::string text;
};

void go_on(const std::stop_token& stop) {
  require<Interrupted>(!stop.stop_requested(), "interrupted while the data was read");
}

std::vector<Line> read_lines(const std::vector<data::WeightedPrefix>& files, const std::stop_token& stop) {
  std::vector<data::TextInput> inputs;
  data::ReadOptions options;
  options.form = data::TextForm::kJsonLines;
  for (const auto& file : files) {
    require<ConfigError>(file.weight == 1,
                         "model.data: '{}' has weight {}; files of a labelled task are read completely: give "
                         "them without weights",
                         file.prefix, file.weight);
    inputs.push_back(data::describe_input(file.prefix, options));
  }
  data::BlockReader reader(inputs, options);
  std::vector<Line> lines;
  for (data::Block block; reader.next(block);) {
    go_on(stop);
    for (std::size_t i = 0; i < block.documents.size(); ++i) {
      const auto [begin, end] = block.documents[i];
      const std::string_view line = block.text.view().substr(begin, end - begin);
      if (line.find_first_not_of(" \t\r") == line.npos) continue;
      const std::int64_t number = block.first_line + static_cast<std::int64_t>(i);
      lines.push_back({{block.input->path.string(), number}, std::string(line)});
    }
  }
  return lines;
}

class Reader {
 public:
  Reader(const RunConfig& config, const TrainingPlan& plan, const token::Tokenizer& tokenizer)
      : task_(config.model.task),
        encoder_(tokenizer, config.model, plan.options.length, plan.options.model.vocabulary),
        stride_(config.data.doc_stride) {
    options_.sequence_length = plan.options.length;
    options_.pad = tokenizer.pad_id().value_or(0);
    options_.seed = static_cast<std::uint32_t>(config.model.seed);
  }

  std::shared_ptr<const data::Dataset> dataset(std::span<const Line> lines, const char* split,
                                               std::optional<std::int64_t> samples, bool shuffled,
                                               const std::stop_token& stop) {
    std::vector<LabelledRow> rows;
    for (const Line& line : lines) {
      go_on(stop);
      add(line, rows);
    }
    require<DataError>(!rows.empty(), "the {} data of the labelled task has no lines", split);
    auto options = options_;
    options.shuffled = shuffled;
    return std::make_shared<data::LabelledDataset>(std::move(rows), samples, options);
  }

 private:
  void add(const Line& line, std::vector<LabelledRow>& rows) {
    if (task_.type == model::Task::kQuestionAnswering) {
      const auto question = data::parse_labelled_question(line.text, line.source);
      require<DataError>(question.labelled, "{} line {}: no \"answers\"", line.source.file, line.source.line);
      for (auto& window : infer::encode_question(encoder_, stride_, question, line.source).windows)
        rows.push_back(std::move(window.row));
      return;
    }
    LabelledRow row =
        task_.type == model::Task::kTokenClassification
            ? encoder_.words(data::parse_labelled_words(line.text, line.source), line.source).row
            : encoder_.text(data::parse_labelled_text(line.text, line.source), line.source);
    require<DataError>(!row.labels.empty(), "{} line {}: no \"{}\"", line.source.file, line.source.line,
                       task_.type == model::Task::kTokenClassification ? "tags" : "label");
    rows.push_back(std::move(row));
  }

  const model::TaskConfig& task_;
  infer::RowEncoder encoder_;
  std::int64_t stride_;
  data::LabelledDataset::Options options_;
};

}  // namespace

data::DatasetTriple build_labelled_data(const RunConfig& config, const TrainingPlan& plan,
                                        const token::Tokenizer* tokenizer,
                                        std::optional<std::int64_t> samples, const data::Notice& notice,
                                        const std::stop_token& stop) {
  require<ConfigError>(tokenizer != nullptr, "labelled text needs a tokenizer: give model.tokenizer");
  const data::DataPrefix& prefix = config.data.data_prefix;
  Reader reader(config, plan, *tokenizer);
  std::vector<Line> train, validation;
  if (prefix.blend.empty()) {
    train = read_lines(prefix.train, stop);
    if (!prefix.validation.empty()) validation = read_lines(prefix.validation, stop);
  } else {
    train = read_lines(prefix.blend, stop);
    const auto ranges = data::split_ranges(data::parse_splits(config.data.splits_string),
                                           static_cast<std::int64_t>(train.size()));
    const auto [begin, end] = ranges[1];
    validation.assign(train.begin() + begin, train.begin() + end);
    train.resize(static_cast<std::size_t>(ranges[0].second));
  }
  data::DatasetTriple out;
  out.train = reader.dataset(train, "training", samples, true, stop);
  if (config.trainer.val_check_interval <= 0 || validation.empty()) return out;
  out.validation = reader.dataset(validation, "validation", std::nullopt, false, stop);
  const std::int64_t found = out.validation->size(),
                     together = config.batch.micro_batch_size * plan.options.layout.data_ranks();
  require<ConfigError>(
      found >= together,
      "the validation data has {} rows, the microbatches of all data ranks have {} together: "
      "give more, or lower model.micro_batch_size",
      found, together);
  if (notice && found % together != 0)
    notice(
        fmt::format("validation: {} of {} rows fill no microbatch and are skipped", found % together, found));
  return out;
}

}  // namespace stoa::train
