#include "eval/sandbox/python_sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "eval/python/text.h"
#include "eval/sandbox/file_rules.h"
#include "eval/sandbox/system_calls.h"

namespace stoa::eval {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kReportDescriptor = 3;  // of the program: where the driver reports
constexpr std::string_view kBegin = "begin\n";
constexpr double kStartSeconds = 20;  // for the interpreter itself, which a busy machine starts slowly
constexpr rlim_t kFilesOpen = 64;

// Reads the program from its standard input, behind a token, and reports "begin" and the token or an error.
constexpr const char* kDriver =
    "import sys,os\n"
    "t,_,s=sys.stdin.buffer.read().decode('utf-8','surrogateescape').partition('\\n')\n"
    "sys.stdin.close()\n"
    "def r(x,n=os.write):\n"
    " n(3,x.encode('utf-8','replace'))\n"
    "r('begin\\n')\n"
    "try:\n"
    " exec(compile(s,'answer','exec'),{})\n"
    "except BaseException as e:\n"
    " r(type(e).__name__+': '+str(e)[:500]+'\\n')\n"
    "else:\n"
    " r(t+'\\n')\n"
    "os._exit(0)\n";

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int get() const { return number_; }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

struct Pipe {
  Pipe() {
    int ends[2];
    require<IoError>(::pipe2(ends, O_CLOEXEC) == 0, "no pipe for the sandbox: {}", std::strerror(errno));
    out = Descriptor(ends[0]);
    in = Descriptor(ends[1]);
  }
  Descriptor out, in;
};

// A script that starts an interpreter (pyenv has such) is none itself: it would need a second one.
bool is_script(const fs::path& path) {
  char begin[2] = {};
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return ::read(file.get(), begin, 2) == 2 && begin[0] == '#' && begin[1] == '!';
}

fs::path found_python(const fs::path& given) {
  const auto usable = [](const fs::path& path) { return ::access(path.c_str(), X_OK) == 0; };
  if (given.has_parent_path()) {
    require<ConfigError>(usable(given), "the interpreter '{}' cannot be executed", given.string());
    return fs::canonical(given);
  }
  const std::string name = given.empty() ? "python3" : given.string();
  const char* path = std::getenv("PATH");
  const std::string folders = path ? path : "/usr/local/bin:/usr/bin:/bin";
  for (const std::string_view folder : pieces_of(folders, ":"))
    if (const fs::path file = fs::path(folder) / name; !folder.empty() && usable(file) && !is_script(file))
      return file;
  fail<ConfigError>("tasks that run code need Python: no '{}' is in PATH", name);
}

std::string random_token() {
  std::random_device device;
  std::string out;
  for (int i = 0; i < 4; ++i) out += fmt::format("{:08x}", device());
  return out;
}

double seconds_to(Clock::time_point end) { return std::chrono::duration<double>(end - Clock::now()).count(); }

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// The steps of a child that can fail, for the parent's message.
enum class Step : char { kPrivileges = 'p', kFiles = 'f', kCalls = 'c', kProgram = 'x' };

const char* step_problem(char step) {
  switch (static_cast<Step>(step)) {
    case Step::kPrivileges:
      return "the kernel does not let a process give up privileges (PR_SET_NO_NEW_PRIVS)";
    case Step::kFiles:
      return "the kernel's rules for files (Landlock) cannot be set";
    case Step::kCalls:
      return "the kernel allows no filters of system calls (seccomp)";
    case Step::kProgram:
      return "the interpreter cannot be executed";
  }
  return "it cannot be set up";
}

// What the driver reports, until it is done or its time is over.
struct Report {
  std::string text;
  bool in_time = true;
};

Report read_report(int from, double seconds) {
  Report out;
  bool begun = false;
  Clock::time_point end = after(kStartSeconds);
  for (;;) {
    const double left = seconds_to(end);
    if (left <= 0) return {out.text, !begun};  // an interpreter that never begins has failed
    pollfd wait{from, POLLIN, 0};
    const int ready = ::poll(&wait, 1, std::max(1, static_cast<int>(left * 1000)));
    if (ready <= 0) continue;
    char buffer[4096];
    const ssize_t n = ::read(from, buffer, sizeof buffer);
    if (n <= 0) return out;
    out.text.append(buffer, static_cast<std::size_t>(n));
    if (!begun && out.text.starts_with(kBegin)) {
      begun = true;
      end = after(seconds);
    }
    if (out.text.size() > 65536 || std::count(out.text.begin(), out.text.end(), '\n') >= 2) return out;
  }
}

// What a child needs, made before the fork: afterwards only system calls are safe.
struct SandboxChild {
  SandboxChild(const fs::path& interpreter, const SandboxLimits& limits, const std::vector<fs::path>& folders,
               const std::string& input)
      : python(interpreter.string()),
        memory(limits.memory),
        seconds(static_cast<rlim_t>(std::ceil(limits.seconds + kStartSeconds))),
        source(::memfd_create("answer", MFD_CLOEXEC)),
        null(::open("/dev/null", O_RDWR | O_CLOEXEC)),
        filter(sandbox_filter(python.c_str())),
        rules(has_file_rules()) {
    require<IoError>(source.get() >= 0 && null.get() >= 0, "no memory for a program: {}",
                     std::strerror(errno));
    std::string_view rest = input;
    while (!rest.empty()) {
      const ssize_t n = ::write(source.get(), rest.data(), rest.size());
      require<IoError>(n > 0, "no memory for a program: {}", std::strerror(errno));
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
    ::lseek(source.get(), 0, SEEK_SET);
    for (const fs::path& folder : folders)
      if (Descriptor d(::open(folder.c_str(), O_PATH | O_CLOEXEC)); d.get() >= 0) {
        readable.push_back(d.get());
        opened.push_back(std::move(d));
      }
  }

  // Never returns.
  void become() {
    for (const auto& [from, to] : {std::pair{source.get(), 0}, {null.get(), 1}, {null.get(), 2}})
      ::dup2(from, to);
    ::dup2(report.in.get(), kReportDescriptor);
    ::setsid();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto limit = [](auto what, rlim_t most) {
      const rlimit both{most, most};
      ::setrlimit(what, &both);
    };
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_CPU, seconds);
    limit(RLIMIT_AS, static_cast<rlim_t>(memory));
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) give_up(Step::kPrivileges);
    if (rules && !restrict_files(readable)) give_up(Step::kFiles);
    ::syscall(SYS_close_range, kReportDescriptor + 1, ~0U, 0);
    limit(RLIMIT_NOFILE, kFilesOpen);
    const auto own = static_cast<std::uint32_t>(::getpid());
    for (sock_filter& step : filter)
      if (step.k == kOwnProcess) step.k = own;
    const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) give_up(Step::kCalls);
    char c[] = "-c", isolated[] = "-I", bytecode[] = "-B", name[] = "python3";
    char language[] = "LANG=C.UTF-8", home[] = "HOME=/", threads[] = "OMP_NUM_THREADS=1";
    char* const arguments[] = {name, isolated, bytecode, c, const_cast<char*>(kDriver), nullptr};
    char* const environment[] = {language, home, threads, nullptr};
    ::execve(python.c_str(), arguments, environment);
    give_up(Step::kProgram);
  }

  static void give_up(Step step) {
    const char text[] = {static_cast<char>(step), '\n', '\n'};
    if (::write(kReportDescriptor, text, sizeof text) < 0) ::_exit(2);
    ::_exit(1);
  }

  const std::string python;
  const std::int64_t memory;
  const rlim_t seconds;
  Pipe report;
  Descriptor source, null;
  std::vector<sock_filter> filter;
  const bool rules;
  std::vector<int> readable;
  std::vector<Descriptor> opened;
};

}  // namespace

PythonSandbox::PythonSandbox(const fs::path& python, SandboxLimits limits)
    : python_(found_python(python)), limits_(limits) {
  readable_ = {"/lib",
               "/lib64",
               "/usr/lib",
               "/usr/lib64",
               "/usr/local/lib",
               "/usr/share/zoneinfo",
               "/etc/ld.so.cache",
               "/dev/null",
               "/dev/zero",
               "/dev/urandom"};
  for (const fs::path& file : {python_, fs::canonical(python_)}) {
    readable_.push_back(file);
    for (const char* part : {"lib", "lib64", "pyvenv.cfg"})
      readable_.push_back(file.parent_path().parent_path() / part);
  }
  std::string why;
  require<ConfigError>(run("pass", &why) == Outcome::kPassed,
                       "tasks that run code need a sandbox, which cannot be had here: {}", why);
}

Outcome PythonSandbox::run(const std::string& program, std::string* why) const {
  const std::string token = random_token();
  SandboxChild child(python_, limits_, readable_, token + "\n" + program);
  const pid_t process = ::fork();
  require<IoError>(process >= 0, "no process for the sandbox: {}", std::strerror(errno));
  if (process == 0) child.become();
  child.report.in.close();
  const Report report = read_report(child.report.out.get(), limits_.seconds);
  ::kill(process, SIGKILL);
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  const bool begun = report.text.starts_with(kBegin);
  if (report.text == std::string(kBegin) + token + "\n") return Outcome::kPassed;
  if (why != nullptr) {
    if (begun)
      *why = std::string(strip(std::string_view(report.text).substr(kBegin.size())));
    else if (report.text.empty())
      *why = fmt::format("'{}' does not start", python_.string());
    else
      *why = step_problem(report.text[0]);
  }
  return report.in_time ? Outcome::kFailed : Outcome::kTimedOut;
}

}  // namespace stoa::eval
