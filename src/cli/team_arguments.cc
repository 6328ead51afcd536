#include "cli/team_arguments.h"

#include <exception>
#include <optional>
#include <thread>

#include "base/console.h"
#include "cli/app.h"
#include "cli/interrupt.h"
#include "cli/number_checks.h"
#include "train/launch.h"

namespace stoa::cli {
namespace {

// A process that only follows ends when rank 0 does, which it tells of its signal.
InterruptScope::Manner manner_of_follower() {
  return {.grace = std::chrono::hours(24),
          .words = "rank 0 ends the command as at a signal of its own (again: exit immediately)",
          .last_words = {}};
}

// The command on a thread of its own: the thread that started the ranks carries their messages.
class CommandThread {
 public:
  CommandThread(infer::RankTeam& team, std::function<void()> body)
      : thread_([this, &team, body = std::move(body)] {
          int status = 0;
          try {
            body();
          } catch (const std::exception& error) {
            error_ = std::current_exception();
            status = train::exit_status(error);
          }
          team.end(status);
        }) {}
  // What it threw.
  std::exception_ptr join() {
    thread_.join();
    return error_;
  }

 private:
  std::exception_ptr error_;
  std::thread thread_;  // last: it writes error_
};

}  // namespace

void TeamArguments::add_to(CLI::App& command) {
  command
      .add_option("--tp", shape.tensor,
                  "Ranks that share each layer of a decoder or encoder-decoder (tensor parallelism): threads "
                  "of this process, or "
                  "the processes of mpirun, srun or a launcher that sets RANK and WORLD_SIZE")
      ->check(between(1, 1024))
      ->capture_default_str();
  command.add_option("--ep", shape.expert, "Ranks among which the experts of each layer are distributed")
      ->check(between(1, 1024))
      ->capture_default_str();
  command.add_option("--pp", shape.pipeline, "Ranks that have consecutive layers (pipeline stages)")
      ->check(between(1, 1024))
      ->capture_default_str();
  command.add_flag(
      "--exact-sum", shape.exact_sum,
      "With several ranks: the bits of one rank, for more communication; otherwise sums are split "
      "among the ranks, and results are equal to rounding");
}

void TeamArguments::run(const MachineOptions& machine, Context& context,
                        const std::function<void(const Run&)>& body) const {
  if (!any()) return body({nullptr, machine, context.interrupt.token()});
  train::Launch launch(build_name(), {.stop = context.interrupt.token()});
  MachineOptions own = machine;
  launch.prepare([&] {
    const std::int64_t started = launch.agreed_ranks({}).value_or(shape.ranks());
    require<ConfigError>(started == shape.ranks(),
                         "{} make {} ranks, but the launcher started {} processes, a rank each", shape.text(),
                         shape.ranks(), started);
    constexpr int kThreads = 64;
    require<ConfigError>(launch.kind() != "threads" || shape.ranks() <= kThreads,
                         "{} make {} ranks; threads of one process are at most {}: start processes (mpirun)",
                         shape.text(), shape.ranks(), kThreads);

    own.ranks = launch.threads_on_host(shape.ranks());
    own.instruction_set = ops::cpu::name_of(choose_instruction_set(own.instruction_set));
  });
  launch.agree("layout", [&] { return shape.text(); });
  if (!launch.first_process()) context.interrupt.set(manner_of_follower());
  infer::RankTeam team(shape);
  std::stop_source stop;
  const std::stop_callback asked(context.interrupt.token(), [&] { stop.request_stop(); });
  std::exception_ptr error;
  int status = 0;  // of rank 0, where that is another process
  launch.run(shape.grid(), {}, [&](train::Seat& seat) {
    MachineOptions carrier = own;
    carrier.threads = 1;
    infer::Machine messages = make_machine(carrier);
    const infer::TeamSeat place{
        std::make_shared<const parallel::ParallelContext>(seat.context(*messages.device)),
        messages,
        [own] { return make_machine(own); },
        seat.apart,
        seat.name,
        launch.kind() != "threads"};
    seat.share_stop(context.interrupt.token(),
                    [&](const std::string& rank) { context.interrupt.told(rank); });
    if (!seat.first()) {
      const int told = infer::follow(place, shape);
      if (launch.kind() != "threads") status = told;
      return;
    }
    CommandThread command(team, [&] { body({&team, own, stop.get_token()}); });
    try {
      team.lead(place);
    } catch (...) {
      stop.request_stop();
      (void)command.join();  // an error that follows from this one
      throw;
    }
    error = command.join();
  });
  if (error) std::rethrow_exception(error);
  if (status != 0) throw train::SilentEnd(status);
}

}  // namespace stoa::cli
