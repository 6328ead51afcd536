// Sends tokens to the ranks that hold their experts, and results back (GShard, 2006.16668, section 3.2;
// nothing is dropped here, but assignments to expert -1 are not sent).
//
// A rank copies its tokens' rows once for every member of Group::kExpert that holds a part of a chosen
// expert, grouped by member. The members first tell each other how many rows they have for each expert, then
// exchange the rows (all-to-all with uneven counts) and group them by expert. Results are sent back the same
// way and added up per token: the parts of a split expert give partial sums. A rank's own rows are not sent.
// With a single member nothing is communicated: the rows are only grouped by expert. Nor is anything where
// every member has all tokens (parallel::ExpertPlace::replicated): each takes the rows of its own experts,
// and the caller adds up what the members give.
//
// The number of rows that arrive is known only during the step: at most every token of the group chooses as
// many of this rank's experts as it can, or as many as a limit permits. Memory is declared for a multiple of
// an even load. What exceeds it comes in further parts (nn/expert_parts.h), whose rows the caller handles one
// part after the other in scratch memory, again in each pass that needs them.
// Operations without a workspace process only the rows that arrived.
#pragma once

#include <optional>
#include <vector>

#include "nn/expert_parts.h"
#include "nn/grouped_linear.h"

namespace stoa::nn {

// The rows of this rank's experts that come at once, sorted by expert. F: most of them.
struct Arrivals {
  int part = 0;
  TensorView order, place;  // ops::GroupArrivals; none where rows are only grouped
  TensorView sorted;        // int32 [F, 1]: the expert of each row
  RowWeights weights;       // router weights
  RowCut cut;
  std::int64_t rows() const { return sorted.elements(); }
};

class ExpertExchange {
 public:
  // `experts`: of all members; a token chooses `chosen` of them.
  ExpertExchange(std::string name, std::int64_t experts, std::int64_t chosen,
                 const parallel::ExpertPlace& place);

  struct Declared {
    std::int64_t tokens = 0, most_tokens = 0;  // on this rank; at most on any
    DType sum = DType::kF32;                   // type of the router's weights
    int choice = -1, weights = -1;             // activations [T, k]: the chosen experts, int32; their weights
    std::optional<std::int64_t> limit = {};    // choices may be -1: most rows of the group for an expert
    std::optional<double> factor = {};         // of an even load, for which memory is declared; none: any
  };
  void declare(ActivationTable& table, const Declared& declared);

  // Most rows of the first part, which are kept, and the least that it has room for however few tokens come.
  std::int64_t rows() const { return rows_; }
  std::int64_t least_rows() const { return spills_ ? PartRows::kFewest : 0; }
  // Whether the host knows how many of `rows` arrived. It waits for a GPU's counts only if ranks exchange
  // rows, to post the exchange; otherwise came() returns all F rows, including unused ones.
  bool host_knows_count(const TensorView& rows) const {
    return !limited_ || exchanges() || rows.device != DeviceKind::kCuda;
  }
  // Starts a backward pass, possibly of a different microbatch. (Computing the choice starts a forward pass.)
  void begin_backward() const { traffic_.reset(); }
  // Computes what later calls read, before the caller opens a frame of temporaries.
  void prepare(Pass& pass, Saved& saved) const;

  int parts(Pass& pass, Saved& saved) const;
  // Kept for part 0; others are in scratch memory. `results`: with what weights rows and sends them back.
  Arrivals arrivals(Pass& pass, Saved& saved, int part, bool results = true) const;
  // The first of F rows: those that arrived.
  TensorView came(Pass& pass, Saved& saved, const Arrivals& part, TensorView rows) const;
  // x [T, D] of the tokens -> rows [F, D] of the experts.
  void send(Pass& pass, Saved& saved, const Arrivals& part, TensorView x, TensorView rows) const;

  // What goes back to the tokens, part after part: memory for all of a rank's rows in scratch, or y [T k, 1]
  // itself where rows are not exchanged.
  TensorView open(Pass& pass, Saved& saved, DType type, std::int64_t columns, TensorView y = {}) const;
  // Where the rows of a part are to be written, sorted by expert, to be brought back.
  TensorView outgoing(Pass& pass, const Arrivals& part, TensorView all) const;
  void bring_back(Pass& pass, Saved& saved, const Arrivals& part, TensorView rows, TensorView all) const;
  // The same for rows in the order of part.weights.
  TensorView outgoing_weights(Pass& pass, Saved& saved, const Arrivals& part, TensorView all) const;
  void bring_back_weights(Pass& pass, Saved& saved, const Arrivals& part, TensorView rows,
                          TensorView all) const;
  // y [T, D] = for every token the sum of its rows, in the order of its choices and of an expert's parts;
  // with y [T k, D] each of them by itself. Where tokens are replicated, rows of others' experts are zeros.
  void close(Pass& pass, Saved& saved, TensorView all, TensorView y) const;

 private:
  // Rows may be sent away or unused: the number that arrives is only known during the step.
  bool counted() const { return place_.split() || limited_; }
  bool exchanges() const { return place_.split() && !place_.replicated; }
  // Whose rows arrive here.
  ops::ExpertMembers senders() const { return place_.replicated ? ops::ExpertMembers{} : members_; }
  void make_groups(Pass& pass, Saved& saved) const;
  void make_arrivals(Pass& pass, Saved& saved) const;
  void make_weights(Pass& pass, Saved& saved) const;
  const std::vector<ExpertPart>& traffic(Pass& pass, Saved& saved) const;
  const ExpertPart& traffic(Pass& pass, Saved& saved, int part) const {
    return traffic(pass, saved)[static_cast<std::size_t>(part)];
  }
  std::vector<ExpertPart> find_traffic(Pass& pass, const TensorView& all, std::int64_t most,
                                       std::int64_t copied) const;
  PartRows part_rows(std::int64_t most) const;
  // Sorts `order` and `place` by part.
  void sort_by_part(Pass& pass, TensorView order, TensorView place) const;
  void group(Pass& pass, const ExpertPart& part, TensorView loads, const Arrivals& out) const;
  // `to` [F + T k C, D]: first the rows that arrive, then this rank's own, then those that it sends.
  void scatter(Pass& pass, Saved& saved, int part, TensorView x, TensorView to) const;

  std::string name_;
  std::int64_t experts_, chosen_;
  parallel::ExpertPlace place_;
  bool limited_ = false, spills_ = false;
  ops::ExpertMembers members_;
  std::int64_t copied_ = 0;  // T k C: copies of the rows of this rank's tokens
  std::int64_t rows_ = 0;
  DType sum_ = DType::kF32;
  // For the current microbatch; cached, because on a GPU the host must wait for the counts.
  mutable std::optional<std::vector<ExpertPart>> traffic_;
  // Activations.
  int choice_ = -1, weights_ = -1, order_ = -1, target_ = -1, sorted_ = -1;
  int loads_ = -1, arrival_order_ = -1, arrival_place_ = -1, arrived_weights_ = -1;
};

}  // namespace stoa::nn
