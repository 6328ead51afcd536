// Several ranks that run models together, each with its share of the weights. Rank 0 has the scheduler and
// draws the tokens: it tells the others which model to load and which pass to run. They follow.
//
// An error of a pass ends all ranks, whichever it arose on: whoever starts them sees to that
// (train/launch.h). One while a model is read is that of load(), and the ranks continue. What rank 0 does
// with the others is done by one thread, which leads; other threads wait until it has.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "infer/engine/paged_decoder.h"

namespace stoa::infer {

// One rank's place among the ranks.
struct TeamSeat {
  std::shared_ptr<const parallel::ParallelContext> context;
  Machine& machine;          // whose device and stream messages go by
  MakeMachine make_machine;  // of each model
  // Runs `body`, however long it takes, while the others may wait for this rank; `text` says why.
  std::function<void(const std::string& text, const std::function<void()>& body)> apart;
  std::string name = {};   // "rank 5@n02", in messages
  bool own_files = false;  // the ranks may see other files: they compare what they read
};

// How many ranks share a model, and in which way.
struct TeamShape {
  int tensor = 1, expert = 1, pipeline = 1;
  bool exact_sum = false;

  int ranks() const { return tensor * expert * pipeline; }
  // As on the command line: "--tp 2 --ep 1 --pp 1".
  std::string text() const;
  grid::RankGrid grid() const;
};

class RankTeam {
 public:
  explicit RankTeam(const TeamShape& shape) : shape_(shape) {}

  const TeamShape& shape() const { return shape_; }
  // On any thread of rank 0's process. The model on all ranks, and its adapters; all outlive what is
  // returned. ConfigError: a model that cannot be shared so, with the nearest numbers of ranks that can;
  // CommError: the team has ended; DataError: a rank cannot read its part, or has other files, with its name;
  // what all ranks throw alike is thrown as it is. After an error no rank keeps anything of the model.
  std::unique_ptr<PassModel> load(OpenModel& model, const EngineUse& use,
                                  std::span<const AdapterFiles> adapters = {});
  // How rank 0's part of the model is built. ConfigError: as above.
  PagedModel::Options options_of(OpenModel& model, const EngineUse& use,
                                 std::span<const AdapterFiles> adapters) const;
  // Bytes of memory that the rank with the largest part takes, with the options of rank 0's.
  std::size_t measure(OpenModel& model, PagedModel::Options options) const;

  // Rank 0: does what other threads ask for, until end(). Any error is theirs, too.
  void lead(const TeamSeat& seat);
  // No one asks any more. `code`: the exit status of what asked, which the other ranks get from follow().
  void end(int code = 0);

 private:
  friend class SharedModel;
  struct Errand {
    const std::function<void(const TeamSeat&)>& work;
    bool done = false;
    std::exception_ptr error = nullptr;
  };
  // Has `work` done by the thread that leads. CommError: it ended.
  void ask(const std::function<void(const TeamSeat&)>& work);
  // The next errand, or null: end.
  Errand* next(const TeamSeat& seat);
  void fail_all(const std::exception_ptr& error);

  const TeamShape shape_;
  std::mutex mutex_;
  std::condition_variable asked_, answered_;
  std::deque<Errand*> errands_;
  bool ended_ = false;
  int code_ = 0;
  std::exception_ptr failure_;
  std::int64_t models_ = 0;  // numbers that were given
};

// A rank other than 0: does what rank 0 says, until it ends. Returns the code of RankTeam::end().
int follow(const TeamSeat& seat, const TeamShape& shape);

// The model on this rank, or on all ranks of a team.
std::unique_ptr<PassModel> load_passes(OpenModel& model, const EngineUse& use,
                                       std::span<const AdapterFiles> adapters, RankTeam* team);

}  // namespace stoa::infer
