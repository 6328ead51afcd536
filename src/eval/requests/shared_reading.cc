#include "eval/requests/shared_reading.h"

#include <algorithm>
#include <map>

#include "infer/engine/scheduler.h"
#include "infer/engine/virtual_tokens.h"
#include "infer/log_probabilities.h"

namespace stoa::eval {
namespace {

constexpr std::int64_t kWorth = 8;  // tokens for which a beginning is kept as a sequence of its own

// Reads a tree of texts: a node's children branch off when it has been read.
class SharedReader {
 public:
  SharedReader(infer::PassModel& model, std::span<const LabelledText> texts,
               const std::function<void(std::size_t, const TextScore&)>& told)
      : model_(model),
        texts_(texts),
        told_(told),
        scheduler_(model.limits()),
        roots_(prefix_tree(texts, model.limits().shares ? kWorth : kNever)),
        scores_(texts.size()) {
    // The longest first. One that is read alone leaves its beginning to the next: those that begin alike
    // follow each other.
    if (model.limits().sequences > 1)
      std::ranges::stable_sort(roots_, std::ranges::greater(),
                               [](const auto& root) { return root->longest; });
  }

  std::int64_t run() {
    // Places are left for the branches of what is being read. The first text is read alone: people see soon
    // that answers come, and when.
    const std::int64_t places = std::max<std::int64_t>(1, model_.limits().sequences / 4);
    std::size_t root = 0;
    std::int64_t read = 0;
    while (root < roots_.size() || !ready_.empty() || !scheduler_.idle()) {
      const std::int64_t together = any_told_ ? places : 1;
      while (scheduler_.running() + scheduler_.waiting() < together &&
             (!ready_.empty() || root < roots_.size())) {
        PrefixNode* node = roots_[std::min(root, roots_.size() - 1)].get();
        if (ready_.empty()) {
          ++root;
        } else {
          node = ready_.back();
          ready_.pop_back();
        }
        const auto text = texts_[node->text].tokens.first(static_cast<std::size_t>(node->end));
        nodes_[scheduler_.add(
            {.tokens = infer::with_virtual_tokens(model_.limits(), text), .scored = scored(*node)})] = node;
      }
      read += pass();
    }
    return read;
  }

 private:
  static constexpr std::int64_t kNever = 1LL << 60;

  // A label that a row of logits predicts.
  struct Wanted {
    std::size_t text, row;
    std::int32_t label;
    float log_probability = 0;
    bool greedy = false;
  };

  // How many of the node's last tokens need logits; the scheduler gives one at least.
  std::int64_t scored(const PrefixNode& node) const {
    return std::max<std::int64_t>(1, node.end - std::max(node.begin, node.first_scored));
  }

  // What the token at `position` is to predict, in the texts in and below `node`.
  void want(const PrefixNode& node, std::int64_t position, std::size_t row) {
    if (node.first_scored > position) return;
    for (const std::size_t i : node.texts)
      if (const std::int64_t label = position - texts_[i].first_scored(); label >= 0)
        wanted_.push_back({i, row, texts_[i].labels[static_cast<std::size_t>(label)]});
    for (const auto& child : node.children) want(*child, position, row);
  }

  std::int64_t pass() {
    const infer::PassPlan& plan = scheduler_.next();
    const std::int64_t tokens = plan.tokens;
    const std::span<const float> logits = model_.run(plan);
    scheduler_.complete();
    wanted_.clear();
    std::size_t row = 0;
    std::vector<std::pair<infer::SequenceId, PrefixNode*>> complete;
    for (const infer::PassSegment& segment : plan.segments) {
      PrefixNode& node = *nodes_.at(segment.sequence);
      const std::int64_t end = segment.begin + std::ssize(segment.tokens);
      for (std::int64_t position = end - segment.scored; position < end; ++position)
        want(node, position - model_.limits().virtual_tokens, row++);
      if (segment.last) complete.emplace_back(segment.sequence, &node);
    }
    judge(logits);
    for (const auto& [sequence, node] : complete) finish(sequence, *node);
    return tokens;
  }

  // Rows are shared out among the threads; sums are made in the order of a text's tokens.
  void judge(std::span<const float> logits) {
    const auto width = static_cast<std::size_t>(model_.limits().vocabulary);
    std::vector<std::size_t> rows;  // where the labels of each row begin
    for (std::size_t i = 0; i < wanted_.size(); ++i)
      if (i == 0 || wanted_[i].row != wanted_[i - 1].row) rows.push_back(i);
    model_.share_out(std::ssize(rows), [&](std::int64_t r) {
      std::size_t i = rows[static_cast<std::size_t>(r)];
      const auto row = logits.subspan(wanted_[i].row * width, width);
      const infer::LogProbabilities probabilities(row);
      for (const std::size_t of = wanted_[i].row; i < wanted_.size() && wanted_[i].row == of; ++i) {
        wanted_[i].log_probability = probabilities.of(wanted_[i].label);
        wanted_[i].greedy = wanted_[i].label == probabilities.likeliest();
      }
    });
    for (const Wanted& w : wanted_) {
      scores_[w.text].log_likelihood += static_cast<double>(w.log_probability);
      scores_[w.text].greedy &= w.greedy;
    }
  }

  void finish(infer::SequenceId sequence, PrefixNode& node) {
    for (const std::size_t i : node.texts) told_(i, scores_[i]), any_told_ = true;
    for (const auto& child : node.children) {
      if (scheduler_.running() >= model_.limits().sequences) {
        ready_.push_back(child.get());  // reads the end of the last block again
        continue;
      }
      const infer::SequenceId branch = scheduler_.fork(sequence);
      scheduler_.append(
          branch,
          texts_[child->text].tokens.subspan(static_cast<std::size_t>(child->begin),
                                             static_cast<std::size_t>(child->end - child->begin)),
          scored(*child));
      nodes_[branch] = child.get();
    }
    scheduler_.remove(sequence);
    nodes_.erase(sequence);
  }

  infer::PassModel& model_;
  const std::span<const LabelledText> texts_;
  const std::function<void(std::size_t, const TextScore&)>& told_;
  infer::Scheduler scheduler_;
  std::vector<std::unique_ptr<PrefixNode>> roots_;
  std::vector<PrefixNode*> ready_;  // nodes whose beginning was read, the next one last
  std::map<infer::SequenceId, PrefixNode*> nodes_;
  std::vector<TextScore> scores_;
  std::vector<Wanted> wanted_;  // of the pass
  bool any_told_ = false;
};

}  // namespace

std::int64_t score_texts(infer::PassModel& model, std::span<const LabelledText> texts,
                         const std::function<void(std::size_t, const TextScore&)>& told) {
  return SharedReader(model, texts, told).run();
}

}  // namespace stoa::eval
