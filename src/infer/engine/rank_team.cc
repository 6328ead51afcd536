#include "infer/engine/rank_team.h"

#include <chrono>
#include <map>
#include <utility>

#include "base/error.h"
#include "infer/engine/file_prints.h"
#include "infer/engine/rank_message.h"
#include "infer/engine/team_split.h"

namespace stoa::infer {
namespace {

enum class Order : std::uint8_t { kLoad, kRun, kLosses, kUnload, kEnd };

RankMessage order_message(Order order, std::int64_t model = 0) {
  RankMessage out;
  out.put(static_cast<std::int64_t>(order));
  out.put(model);
  return out;
}

comm::Communicator& everyone(const TeamSeat& seat) { return seat.context->along(parallel::Group::kWorld); }

RankShare share_of(const TeamShape& shape, int rank) {
  return {shape.grid(), rank, shape.exact_sum, nullptr};
}

void send(const TeamSeat& seat, RankMessage message) {
  message.broadcast(everyone(seat), *seat.machine.stream);
}

std::int64_t reduced(const TeamSeat& seat, std::int64_t value, comm::ReduceOp op) {
  everyone(seat).all_reduce(TensorView(&value, DType::kI64, {1}), op, *seat.machine.stream)->wait();
  return value;
}

template <class Body>
std::exception_ptr error_of(const Body& body) {
  try {
    body();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

// DataError on ranks whose files are not those of rank 0.
std::exception_ptr compare_files(const TeamSeat& seat, const std::vector<fs::path>& places) {
  if (!seat.own_files) return nullptr;
  using Prints = std::map<std::string, std::string>;
  std::vector<Prints> own;
  const auto unread = error_of([&] {
    seat.apart("compares the files of the model", [&] {
      for (const fs::path& place : places) own.push_back(file_prints(place));
    });
  });
  RankMessage message;
  if (seat.context->rank() == 0) {
    message.put(std::ssize(own));
    for (const Prints& prints : own) {
      message.put(std::ssize(prints));
      for (const auto& [name, print] : prints) message.put(name), message.put(print);
    }
  }
  message.broadcast(everyone(seat), *seat.machine.stream);
  if (unread || seat.context->rank() == 0) return unread;
  return error_of([&] {
    std::vector<Prints> first(static_cast<std::size_t>(message.number()));
    for (Prints& prints : first)
      for (std::int64_t left = message.number(); left > 0; --left) {
        std::string name = message.text();
        prints.emplace(std::move(name), message.text());
      }
    for (std::size_t i = 0; i < first.size(); ++i) {
      const std::string difference = different_file(own[i], first[i]);
      require<DataError>(difference.empty(), "its files in '{}' are not those of rank 0: {}",
                         places[i].string(), difference);
    }
  });
}

// Reads a model on all ranks, each in its own way. What each of them returns: the error of this rank or, on
// ranks that have none, that of the first that has; null: all have read it.
std::exception_ptr load_together(const TeamSeat& seat, const std::vector<fs::path>& places,
                                 const std::function<void()>& load) {
  auto own = compare_files(seat, places);
  if (!own) own = error_of([&] { seat.apart("reads the model", load); });
  const int ranks = everyone(seat).size(), rank = everyone(seat).rank();
  const std::int64_t failed = reduced(seat, own ? 1 : 0, comm::ReduceOp::kSum);
  if (failed == 0) return nullptr;
  const auto first = static_cast<int>(ranks - reduced(seat, own ? ranks - rank : 0, comm::ReduceOp::kMax));
  RankMessage message;
  if (rank == first) message.put(fmt::format("{}: {}", seat.name, text_of(own)));
  message.broadcast(everyone(seat), *seat.machine.stream, first);
  if (failed == ranks) return own;
  return std::make_exception_ptr(
      DataError(rank == first ? fmt::format("{}: {}", seat.name, text_of(own)) : message.text()));
}

}  // namespace

grid::RankGrid TeamShape::grid() const {
  // Copies of what is not split stand along the data axis. With sums in the order of one rank, experts stay
  // whole.
  const grid::ExpertDegrees experts =
      exact_sum ? grid::ExpertDegrees{1, tensor * expert} : grid::ExpertDegrees{tensor, expert};
  return grid::RankGrid({tensor, 1, 1, expert, pipeline}, experts);
}

std::string TeamShape::text() const {
  return fmt::format("--tp {} --ep {} --pp {}{}", tensor, expert, pipeline, exact_sum ? " --exact-sum" : "");
}

// A model that all ranks of a team have.
class SharedModel final : public PassModel {
 public:
  SharedModel(RankTeam& team, std::int64_t number, std::unique_ptr<PagedDecoder> own)
      : team_(team), number_(number), own_(std::move(own)), limits_(own_->limits()), pool_(own_->pool()) {
    // A stage of an encoder has none.
    const PagedModel::Options& options = own_->options();
    pool_.bytes =
        std::max(pool_.bytes, most_bytes_per_token(options.model.config, options.kept(), options.share) *
                                  static_cast<std::size_t>(limits_.blocks * limits_.block_tokens));
  }
  ~SharedModel() override {
    try {
      team_.ask([&](const TeamSeat& seat) { send(seat, order_message(Order::kUnload, number_)); });
    } catch (const std::exception&) {
      // The ranks have ended.
    }
  }

  const PassLimits& limits() const override { return limits_; }
  PoolMemory pool() const override { return pool_; }
  std::span<const float> run(const PassPlan& plan) override {
    std::span<const float> out;
    team_.ask([&](const TeamSeat& seat) {
      RankMessage message = order_message(Order::kRun, number_);
      put(message, plan);
      send(seat, std::move(message));
      out = own_->run(plan);
    });
    return out;
  }
  std::span<const float> losses(const PassPlan& plan, std::span<const std::int32_t> labels) override {
    std::span<const float> out;
    team_.ask([&](const TeamSeat& seat) {
      RankMessage message = order_message(Order::kLosses, number_);
      put(message, plan);
      message.put(labels);
      send(seat, std::move(message));
      out = own_->losses(plan, labels);
    });
    return out;
  }
  void share_out(std::int64_t tasks, const std::function<void(std::int64_t)>& body) override {
    own_->share_out(tasks, body);
  }

 private:
  RankTeam& team_;
  const std::int64_t number_;
  const std::unique_ptr<PagedDecoder> own_;
  const PassLimits limits_;
  PoolMemory pool_;  // of the rank that has most
};

PagedModel::Options RankTeam::options_of(OpenModel& model, const EngineUse& use,
                                         std::span<const AdapterFiles> adapters) const {
  check_kind(model, use);
  check_team(model.model(), shape_);
  require<ConfigError>(model.on_host(), "ranks share a model in host memory: --backend cpu, without --cuda");
  return paged_options(model, use, adapters, share_of(shape_, 0));
}

std::size_t RankTeam::measure(OpenModel& model, PagedModel::Options options) const {
  std::size_t most = 0;
  // The first of the ranks that share a stage has as much as any of them.
  for (int stage = 0; stage < shape_.pipeline; ++stage) {
    options.share = share_of(shape_, stage * shape_.tensor * shape_.expert);
    most = std::max(most, model.measure<PagedDecoder>(options));
  }
  return most;
}

std::unique_ptr<PassModel> RankTeam::load(OpenModel& model, const EngineUse& use,
                                          std::span<const AdapterFiles> adapters) {
  if (use.tokenizer) model.tokenizer();
  PagedModel::Options options = options_of(model, use, adapters);
  std::vector<fs::path> places{model.directory()};
  if (model.adapter_directory()) places.push_back(*model.adapter_directory());
  for (const AdapterFiles& files : adapters) places.push_back(files.directory());
  std::unique_ptr<PassModel> out;
  std::exception_ptr error;
  ask([&](const TeamSeat& seat) {
    const std::int64_t number = ++models_;
    RankMessage message = order_message(Order::kLoad, number);
    message.put(fs::absolute(model.directory()).string());
    message.put(std::string(name_of(model.precision().compute)));
    message.put(static_cast<std::int64_t>(model.weights()));
    message.put(model.adapter_directory() ? fs::absolute(*model.adapter_directory()).string()
                                          : std::string());
    put(message, options.limits);
    message.put(static_cast<std::int64_t>(options.kept()));
    message.put(std::int64_t{options.losses});
    for (const AdapterFiles& files : adapters) message.put(fs::absolute(files.directory()).string());
    send(seat, std::move(message));
    options.share.context = seat.context;
    std::unique_ptr<PagedDecoder> own;
    error = load_together(seat, places, [&] { own = load_share(model, options, adapters); });
    if (!error) out = std::make_unique<SharedModel>(*this, number, std::move(own));
  });
  if (error) std::rethrow_exception(error);
  return out;
}

void RankTeam::ask(const std::function<void(const TeamSeat&)>& work) {
  Errand errand{work};
  std::unique_lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  require<CommError>(!ended_, "the ranks have ended");
  errands_.push_back(&errand);
  asked_.notify_all();
  answered_.wait(lock, [&] { return errand.done; });
  if (errand.error) std::rethrow_exception(errand.error);
}

RankTeam::Errand* RankTeam::next(const TeamSeat& seat) {
  constexpr auto kSoon = std::chrono::seconds(1);
  const auto wait = [this](auto most) {
    std::unique_lock lock(mutex_);
    return asked_.wait_for(lock, most, [this] { return ended_ || !errands_.empty(); });
  };
  // The others may wait for hours: they learn why.
  if (!wait(kSoon))
    seat.apart("waits for requests", [&] {
      while (!wait(std::chrono::hours(1))) continue;
    });
  const std::lock_guard lock(mutex_);
  if (errands_.empty()) return nullptr;
  Errand* const out = errands_.front();
  errands_.pop_front();
  return out;
}

void RankTeam::fail_all(const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  failure_ = error;
  for (Errand* errand : errands_) errand->error = error, errand->done = true;
  errands_.clear();
  answered_.notify_all();
}

void RankTeam::lead(const TeamSeat& seat) {
  try {
    while (Errand* const errand = next(seat)) {
      const auto done = [&](const std::exception_ptr& error) {
        const std::lock_guard lock(mutex_);
        if (error) failure_ = error;
        errand->error = error;
        errand->done = true;
        answered_.notify_all();
      };
      try {
        errand->work(seat);
      } catch (...) {
        done(std::current_exception());
        throw;
      }
      done(nullptr);
    }
    send(seat, order_message(Order::kEnd, code_));
  } catch (...) {
    fail_all(std::current_exception());
    throw;
  }
}

void RankTeam::end(int code) {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  code_ = code;
  asked_.notify_all();
}

int follow(const TeamSeat& seat, const TeamShape& shape) {
  // A model with its rank's share of the weights.
  struct Share {
    std::unique_ptr<OpenModel> model;
    std::unique_ptr<PagedDecoder> decoder;
  };
  std::map<std::int64_t, Share> models;
  for (;;) {
    RankMessage message;
    message.broadcast(everyone(seat), *seat.machine.stream);
    const auto order = static_cast<Order>(message.number());
    const std::int64_t number = message.number();
    switch (order) {
      case Order::kLoad: {
        const fs::path directory = message.text();
        const DType type = dtype_from_name(message.text());
        const auto weights = static_cast<QuantisedWeights>(message.number());
        const std::string adapter = message.text();
        PagedModel::Options options{};
        options.limits = limits_of(message);
        options.cache = static_cast<DType>(message.number());
        options.losses = message.number() != 0;
        std::vector<fs::path> places{directory};
        if (!adapter.empty()) places.emplace_back(adapter);
        const std::size_t own = places.size();
        for (std::size_t a = 0; a < options.limits.adapters.size(); ++a) places.emplace_back(message.text());
        Share& share = models[number];
        const auto error = load_together(seat, places, [&] {
          share.model = std::make_unique<OpenModel>(
              directory, type, seat.make_machine,
              adapter.empty() ? std::nullopt : std::optional<fs::path>(adapter), weights);
          std::vector<AdapterFiles> adapters;
          for (std::size_t a = own; a < places.size(); ++a) {
            adapters.push_back(share.model->open_adapter(places[a]));
            options.adapters.push_back(adapters.back().model());
          }
          options.model = share.model->model();
          options.precision = share.model->precision();
          options.share = share_of(shape, seat.context->rank());
          options.share.context = seat.context;
          share.decoder = load_share(*share.model, options, adapters);
        });
        if (error) models.erase(number);
        break;
      }
      case Order::kRun:
        models.at(number).decoder->run(plan_of(message));
        break;
      case Order::kLosses: {
        const PassPlan plan = plan_of(message);
        models.at(number).decoder->losses(plan, message.list());
        break;
      }
      case Order::kUnload:
        models.erase(number);
        break;
      case Order::kEnd:
        return static_cast<int>(number);
    }
  }
}

std::unique_ptr<PassModel> load_passes(OpenModel& model, const EngineUse& use,
                                       std::span<const AdapterFiles> adapters, RankTeam* team) {
  if (team != nullptr) return team->load(model, use, adapters);
  return load_paged_decoder(model, use, adapters);
}

}  // namespace stoa::infer
