#include "train/keep_logits.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "base/timing.h"
#include "nn/embedding.h"
#include "run/over_ranks.h"
#include "run/rank_checkpoint.h"
#include "run/teacher_layout.h"
#include "train/teacher_plan.h"
#include "train/training_data.h"
#include "tune/chat_dataset.h"

namespace stoa::train {
namespace {

namespace fs = std::filesystem;
using parallel::Group;

// The most likely of the columns that a rank has, of one token. `numbers` has room for `size(top)` of them:
// ids plus 1, 0 where there are fewer; their logits; and the highest logit and the sum of exponentials
// relative to it of all other columns.
struct MostLikely {
  static std::size_t size(std::int64_t top) { return 2 * static_cast<std::size_t>(top) + 2; }

  template <class T>
  static void find(std::span<const T> logits, std::int64_t first_id, std::int64_t top,
                   std::span<double> numbers) {
    const auto k = std::min(static_cast<std::size_t>(top), logits.size());
    // The smallest of the largest so far is in front; of equal ones those of small ids are kept.
    const auto above = [&](std::int32_t a, std::int32_t b) {
      const T x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
      return x > y || (x == y && a < b);
    };
    std::vector<std::int32_t> kept(k);
    std::iota(kept.begin(), kept.end(), 0);
    std::make_heap(kept.begin(), kept.end(), above);
    for (auto i = static_cast<std::int32_t>(k); i < static_cast<std::int32_t>(logits.size()); ++i) {
      if (!above(i, kept.front())) continue;
      std::pop_heap(kept.begin(), kept.end(), above);
      kept.back() = i;
      std::push_heap(kept.begin(), kept.end(), above);
    }
    std::sort(kept.begin(), kept.end());
    double highest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (const bool adds : {false, true}) {
      std::size_t next = 0;
      for (std::size_t i = 0; i < logits.size(); ++i) {
        if (next < k && static_cast<std::size_t>(kept[next]) == i) {
          ++next;
          continue;
        }
        const auto x = static_cast<double>(logits[i]);
        if (adds)
          sum += std::exp(x - highest);
        else
          highest = std::max(highest, x);
      }
    }
    for (std::size_t c = 0; c < k; ++c) {
      numbers[c] = static_cast<double>(first_id + kept[c] + 1);
      numbers[static_cast<std::size_t>(top) + c] =
          static_cast<double>(logits[static_cast<std::size_t>(kept[c])]);
    }
    numbers[numbers.size() - 2] = sum > 0 ? highest : 0;
    numbers[numbers.size() - 1] = sum;
  }

  // Joins all ranks' numbers, one rank's after the other.
  static KeptToken join(std::span<const double> numbers, std::int64_t top) {
    const auto k = static_cast<std::size_t>(top);
    std::vector<std::pair<double, std::int32_t>> found;  // logit, id
    double highest = -std::numeric_limits<double>::infinity();
    for (std::size_t at = 0; at < numbers.size(); at += size(top)) {
      for (std::size_t c = at; c < at + k; ++c)
        if (numbers[c] > 0) {
          found.emplace_back(numbers[k + c], static_cast<std::int32_t>(numbers[c]) - 1);
          highest = std::max(highest, numbers[k + c]);
        }
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return a.first > b.first || (a.first == b.first && a.second < b.second);
    });
    double kept = 0, rest = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      (i < k ? kept : rest) += std::exp(found[i].first - highest);
    for (std::size_t at = size(top); at <= numbers.size(); at += size(top))
      if (numbers[at - 1] > 0) rest += numbers[at - 1] * std::exp(numbers[at - 2] - highest);
    const double scale = highest + std::log(kept + rest);
    found.resize(k);
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    KeptToken out;
    for (const auto& [logit, id] : found) {
      out.ids.push_back(id);
      out.log_probabilities.push_back(static_cast<float>(logit - scale));
    }
    // Half precision ends there, and a share of e^-60000 is none.
    constexpr double kLeast = -60000;
    out.log_probabilities.push_back(
        static_cast<float>(rest > 0 ? std::max(kLeast, highest + std::log(rest) - scale) : kLeast));
    return out;
  }
};

// The teacher as the model of a rank that trains nothing.
run::TrainingOptions teacher_options(const run::TrainingOptions& student) {
  run::TrainingOptions out = student;
  out.model = student.teacher->model;
  const auto chunks = run::place_chunks(student.layout, student.model.config.num_layers).size();
  out.layout =
      run::layout_of_teacher(student.layout, out.model.config.num_layers, static_cast<std::int64_t>(chunks));
  out.teacher.reset();
  out.evaluation = true;
  out.sample_context = 0;
  return out;
}

class Keeper {
 public:
  Keeper(const TrainerParts& parts, run::TrainingRank& rank, const KeepLogits& how, const KeptHeader& header)
      : parts_(parts), rank_(rank), top_(header.top), vocabulary_(header.vocabulary) {
    if (parts.seat.first()) writer_.emplace(how.directory, header);
  }

  bool keep(const data::Dataset& data, const char* what) {
    const run::TrainingOptions& o = rank_.options();
    const std::int64_t rows = data.size(), micro = o.micro_batch, ranks = o.layout.data_ranks(),
                       at_once = micro * ranks *
                                 (o.layout.pipeline_ranks() == 1 ? 1 : 4 * o.layout.pipeline_ranks());
    data::Batch all;
    auto told = std::chrono::steady_clock::now();
    for (std::int64_t first = 0; first < rows; first += at_once) {
      std::vector<std::int64_t> numbers(static_cast<std::size_t>(at_once));
      std::iota(numbers.begin(), numbers.end(), first);
      for (std::int64_t& n : numbers) n %= rows;  // the last batch is filled up
      data::fill_batch(data, numbers, all);
      std::array<double, 2> says{parts_.stop.stop_requested() ? 1.0 : 0.0,
                                 writer_ && !all_kept(all) ? 1.0 : 0.0};
      run::add_over_ranks(rank_, says, Group::kWorld);
      if (says[0] > 0) {
        if (writer_) writer_->flush();
        return false;
      }
      if (says[1] > 0) keep_rows(data, numbers, all);
      if (writer_ && seconds_since(told) > 10) {
        told = std::chrono::steady_clock::now();
        parts_.console.line(fmt::format("{} of {} {} rows", std::min(first + at_once, rows), rows, what));
      }
    }
    return true;
  }

  void commit() {
    if (writer_) writer_->commit();
  }
  const std::optional<KeptLogitsWriter>& writer() const { return writer_; }

 private:
  bool all_kept(const data::Batch& batch) const {
    for (std::int64_t r = 0; r < batch.rows; ++r)
      if (!writer_->has(checksum_of_row(batch, r))) return false;
    return true;
  }

  // `all`: the rows `numbers` of the data set, of all ranks.
  void keep_rows(const data::Dataset& data, const std::vector<std::int64_t>& numbers,
                 const data::Batch& all) {
    const run::TrainingOptions& o = rank_.options();
    const auto length = static_cast<std::size_t>(o.length), size = MostLikely::size(top_);
    const auto tensor = static_cast<std::size_t>(o.layout.grid.degree(grid::Axis::kTensor));
    // The place of every trained token among them.
    std::vector<std::size_t> place(all.loss_mask.size(), 0);
    std::size_t trained = 0;
    for (std::size_t i = 0; i < place.size(); ++i)
      if (all.loss_mask[i] != 0) place[i] = trained++;
    std::vector<double> found(trained * tensor * size, 0.0);
    std::vector<std::int64_t> order(numbers.size());  // of this rank's rows in `all`
    std::iota(order.begin(), order.end(), 0);
    order = rows_of_rank(order, o.micro_batch, o.layout.data_ranks(),
                         o.layout.data_rank(rank_.parallel().rank()));
    std::vector<std::int64_t> own;
    for (const std::int64_t r : order) own.push_back(numbers[static_cast<std::size_t>(r)]);
    data::Batch batch;
    data::fill_batch(data, own, batch);
    const parallel::ContextPlace context = o.layout.context_place(rank_.parallel().rank());
    const std::vector<std::int32_t> held = context.split()
                                               ? parallel::local_tokens(context, o.micro_batch, o.length)
                                               : std::vector<std::int32_t>();
    const parallel::TensorPlace split{rank_.parallel().coordinate(parallel::Axis::kTensor),
                                      static_cast<int>(tensor), o.layout.sequence_parallel};
    const nn::VocabularyPart part = nn::vocabulary_part(vocabulary_, o.model.padded_vocabulary, split);
    rank_.evaluate(batch, 0, {}, {}, [&](std::int64_t row, std::int64_t token, TensorView logits) {
      rank_.machine().pool->run(logits.rows(), [&](std::int64_t t, int) {
        const auto i = static_cast<std::size_t>(token + t),
                   at = held.empty() ? i : static_cast<std::size_t>(held[i]);  // in the microbatch
        const std::size_t in_all =
            static_cast<std::size_t>(order[static_cast<std::size_t>(row) + at / length]) * length +
            at % length;
        if (all.loss_mask[in_all] == 0) return;
        const auto numbers_of = std::span(found).subspan(
            (place[in_all] * tensor + static_cast<std::size_t>(split.rank)) * size, size);
        const auto columns = static_cast<std::size_t>(part.ids.count);
        if (logits.dtype == DType::kF64)
          MostLikely::find(std::span<const double>(logits.row<double>(t), columns), part.ids.begin, top_,
                           numbers_of);
        else
          MostLikely::find(std::span<const float>(logits.row<float>(t), columns), part.ids.begin, top_,
                           numbers_of);
      });
    });
    // Each number is on one rank: that of the token's row, stage, context and columns.
    run::add_over_ranks(rank_, found, Group::kWorld);
    if (!writer_) return;
    std::size_t next = 0;
    for (std::int64_t r = 0; r < all.rows; ++r) {
      std::vector<KeptToken> tokens;
      for (std::size_t i = static_cast<std::size_t>(r) * length; i < static_cast<std::size_t>(r + 1) * length;
           ++i)
        if (all.loss_mask[i] != 0)
          tokens.push_back(
              MostLikely::join(std::span(found).subspan(next++ * tensor * size, tensor * size), top_));
      writer_->add(checksum_of_row(all, r), tokens);
    }
  }

  const TrainerParts& parts_;
  run::TrainingRank& rank_;
  const std::int64_t top_, vocabulary_;
  std::optional<KeptLogitsWriter> writer_;  // on rank 0
};

}  // namespace

bool keep_logits(const TrainerParts& parts, const KeepLogits& how) {
  const TrainingPlan& plan = parts.plan();
  require<ConfigError>(
      plan.options.teacher.has_value(),
      "--keep-logits keeps what a teacher predicts: name it (model.distill.teacher, --teacher)");
  const run::TrainingOptions options = teacher_options(plan.options);
  infer::Machine machine = parts.make_machine();
  infer::Machine meta = infer::make_meta_machine(machine);
  run::TrainingRank rank(machine, options, parts.seat.context(*machine.device),
                         run::TrainingRank::measure_scratch(meta, options, parts.seat.rank));
  KeptHeader header;
  header.vocabulary = options.model.vocabulary;
  header.top = std::min(how.top, header.vocabulary);
  header.type = how.type;
  load_teacher(parts, rank);
  header.teacher = *parts.config.distill.teacher;
  if (parts.seat.first())
    parts.seat.apart("reads the teacher's files",
                     [&] { header.checksum = teacher_checksum(parts.config.distill); });
  if (const token::Tokenizer* const tokenizer = parts.tokenizer())
    header.tokenizer = tokenizer->fingerprint();
  Keeper keeper(parts, rank, how, header);
  const data::DatasetTriple& data = parts.inputs->data.datasets;
  const auto* chats = dynamic_cast<const tune::ChatDataset*>(data.train.get());
  std::optional<tune::ChatDataset> epoch;
  if (chats) epoch.emplace(chats->one_epoch());
  const data::Dataset& training = epoch ? static_cast<const data::Dataset&>(*epoch) : *data.train;
  if (!keeper.keep(training, "training") || (data.validation && !keeper.keep(*data.validation, "validation")))
    return false;
  keeper.commit();
  if (keeper.writer())
    parts.console.line(fmt::format(
        "kept the {} most likely tokens of {} predictions in {} rows, {} bytes a trained token: {}; "
        "model.distill.kept_logits={} trains by them",
        header.top, keeper.writer()->tokens(), keeper.writer()->rows(), header.bytes_per_token(),
        format_bytes(static_cast<double>(keeper.writer()->tokens() * header.bytes_per_token())),
        how.directory.string()));
  return true;
}

}  // namespace stoa::train
