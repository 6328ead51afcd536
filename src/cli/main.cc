// `stoa <command>`: results on standard output, everything else on standard error. Exit status: 0 done, 1
// rejected or failed, 2 wrong usage, 130 interrupted.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/console.h"
#include "base/error.h"
#include "base/nearest.h"
#include "cli/app.h"
#include "cli/interrupt.h"
#include "cli/print.h"

namespace {

// If the caller closed a standard stream, the next file opened would get its descriptor, and messages would
// be written into that file. Writing an answer still fails; messages are discarded.
void occupy_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
}

int report(const std::exception& error, int code) {
  // An empty message: another process of the job reports the error.
  if (*error.what() != '\0') std::fprintf(stderr, "ERROR %s\n", error.what());
  return code;
}

// A command that does not exist, at any depth (`stoa eval perplexty`): the nearest one is named.
void require_command(const CLI::App& app, int argc, char** argv) {
  const CLI::App* parent = &app;
  std::string called = app.get_name();
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    const CLI::App* found = nullptr;
    std::vector<std::string> names;
    for (const CLI::App* command : parent->get_subcommands(nullptr)) {
      if (command->check_name(argv[i])) found = command;
      names.push_back(command->get_name());
    }
    if (names.empty()) return;  // its arguments begin
    stoa::require<stoa::UsageError>(found, "'{}' is not a command of {}{}: {} --help lists them", argv[i],
                                    called, stoa::did_you_mean(argv[i], names), called);
    parent = found;
    called += fmt::format(" {}", argv[i]);
  }
}

// The command that was given, and what it is called.
std::pair<const CLI::App*, std::string> given_command(const CLI::App& app) {
  std::pair<const CLI::App*, std::string> out(&app, app.get_name());
  while (!out.first->get_subcommands().empty()) {
    out.first = out.first->get_subcommands().front();
    out.second += " " + out.first->get_name();
  }
  return out;
}

// An option that does not exist: the nearest one is named.
void refuse_unknown_option(const CLI::App& app) {
  const auto& [command, called] = given_command(app);
  std::vector<std::string> names;
  for (const CLI::Option* option : command->get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const std::string& word : app.remaining(true)) {
    const std::string given = word.substr(0, word.find('='));
    stoa::require<stoa::UsageError>(!given.starts_with("--"),
                                    "'{}' is not an option of {}{}: {} --help lists them", given, called,
                                    stoa::did_you_mean(given, names), called);
  }
}

// A value that is not a number, where the option takes one: 'Could not convert: --steps = 1e3' does not say
// so.
void refuse_value(const CLI::App& app, const std::string& message) {
  constexpr std::string_view kBegin = "Could not convert: ", kThen = " = ";
  const std::size_t then = message.find(kThen);
  if (!message.starts_with(kBegin) || then == std::string::npos) return;
  const std::string name = message.substr(kBegin.size(), then - kBegin.size());
  const CLI::Option* option = given_command(app).first->get_option_no_throw(name);
  if (!option) return;
  const std::string type = option->get_type_name();
  const bool whole = type.starts_with("INT") || type.starts_with("UINT");
  stoa::require<stoa::UsageError>(!whole && !type.starts_with("FLOAT"), "{}: expected {}, got '{}'", name,
                                  whole ? "a whole number" : "a number", message.substr(then + kThen.size()));
}

// Does what the arguments say. The exit status, where they are wrong or ask for help.
int run(CLI::App& app, int argc, char** argv) {
  require_command(app, argc, argv);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) refuse_unknown_option(app);
    if (e.get_exit_code() == static_cast<int>(CLI::ExitCodes::ConversionError)) refuse_value(app, e.what());
    std::ostringstream help;
    const bool answered = app.exit(e, help, std::cerr) == 0;
    stoa::cli::print(help.str());
    return answered ? 0 : 2;
  }
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error of write(), which is reported
  stoa::Console console;
  stoa::cli::InterruptScope interrupt(console);
  stoa::cli::Context context{console, interrupt};
  const std::unique_ptr<CLI::App> app = stoa::cli::make_app(context);
  try {
    return run(*app, argc, argv);
  } catch (const stoa::Error& e) {
    console.finish_live();
    return report(e, e.exit_code());
  } catch (const std::bad_alloc&) {
    std::fputs("ERROR out of memory\n", stderr);
    return 1;
  } catch (const std::exception& e) {
    return report(e, 1);
  }
}
