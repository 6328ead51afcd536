#include "eval/sandbox/python_sandbox.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/test_folder.h"

namespace stoa::eval {
namespace {

using ::testing::HasSubstr;

const PythonSandbox& sandbox() {
  static const PythonSandbox made({}, {.seconds = 5, .memory = std::int64_t{512} << 20});
  return made;
}

std::string failure_of(const std::string& program) {
  std::string why;
  return sandbox().run(program, &why) == Outcome::kFailed ? why : "did not fail";
}

TEST(PythonSandbox, ProgramsPassOrFailByTheirOwnTests) {
  EXPECT_EQ(sandbox().run("import math, re, json, collections, itertools, hashlib, heapq, random, datetime\n"
                          "def f(x):\n  return math.isqrt(x)\nassert f(17) == 4\n"),
            Outcome::kPassed);
  EXPECT_EQ(failure_of("assert 1 == 2, 'no'"), "AssertionError: no");
  EXPECT_THAT(failure_of("def f(:"), HasSubstr("SyntaxError"));
  EXPECT_THAT(failure_of("import sys; sys.exit(0)"), HasSubstr("SystemExit"));
  EXPECT_THAT(failure_of("input()"), HasSubstr("Error"));
  EXPECT_EQ(sandbox().run("import os; os._exit(0)"), Outcome::kFailed);
  EXPECT_EQ(sandbox().run("import threading\nl=[]\nt=threading.Thread(target=lambda: l.append(1))\n"
                          "t.start(); t.join()\nassert l == [1]\nprint('out', end='')"),
            Outcome::kPassed);
}

TEST(PythonSandbox, FilesAreNotWrittenAndOnlyPythonsOwnAreRead) {
  const TestFolder folder;
  const fs::path file = folder / "file";
  write_text(file, "secret");
  const std::string name = "'" + file.string() + "'";
  for (const std::string& attempt : std::vector<std::string>{
           "open(" + name + ", 'w')", "open(" + name + ", 'a')", "open(" + name + " + 'x', 'x')",
           "import os; os.remove(" + name + ")", "import os; os.rename(" + name + ", '/tmp/y')",
           "import os; os.mkdir(" + name + " + 'd')", "import os; os.chmod(" + name + ", 0)",
           "import os; os.truncate(" + name + ", 0)", "import os; os.symlink('/etc', " + name + " + 'l')",
           "import os; os.utime(" + name + ")", "import os; os.mkfifo(" + name + " + 'f')",
           "import os; os.open(" + name + ", os.O_RDONLY | os.O_TRUNC)",
           "import tempfile; tempfile.NamedTemporaryFile()", "import os; os.chroot('/tmp')",
           "import os; os.setxattr(" + name + ", 'user.a', b'b')"})
    EXPECT_THAT(failure_of(attempt), HasSubstr("Error")) << attempt;
  EXPECT_EQ(read_text(file), "secret");
  // Landlock, which this kernel may not have.
  const std::string read = failure_of("open(" + name + ").read()");
  EXPECT_TRUE(read == "did not fail" || read.find("PermissionError") != std::string::npos) << read;
}

TEST(PythonSandbox, ThereIsNoNetwork) {
  EXPECT_THAT(failure_of("import socket; socket.socket()"), HasSubstr("PermissionError"));
  EXPECT_THAT(failure_of("import socket; socket.socket(socket.AF_UNIX)"), HasSubstr("PermissionError"));
  EXPECT_THAT(failure_of("import socket; socket.socketpair()"), HasSubstr("PermissionError"));
}

TEST(PythonSandbox, NoOtherProcessIsStartedOrReached) {
  EXPECT_THAT(failure_of("import os\nwhile True: os.fork()"), HasSubstr("PermissionError"));
  EXPECT_THAT(failure_of("import subprocess; subprocess.run(['/bin/true'], check=True)"), HasSubstr("Error"));
  EXPECT_THAT(failure_of("import os; os.execv('/bin/true', ['true'])"), HasSubstr("PermissionError"));
  EXPECT_THAT(failure_of(fmt::format("import os; os.kill({}, 9)", ::getpid())), HasSubstr("PermissionError"));
  EXPECT_THAT(failure_of("import os; os.kill(-1, 9)"), HasSubstr("PermissionError"));
  EXPECT_THAT(failure_of("import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"),
              HasSubstr("Error"));
  EXPECT_THAT(failure_of("import os; os.setuid(12345)"), HasSubstr("PermissionError"));
  EXPECT_THAT(failure_of("import os\ntry:\n  n = os.nice(-5)\nexcept AttributeError:\n  raise OSError"),
              HasSubstr("Error"));
  if (failure_of("import ctypes") == "did not fail") {
    const std::string libc = "import ctypes\nc = ctypes.CDLL(None, use_errno=True)\n";
    // ptrace, mount, unshare, bpf by their functions or numbers on x86-64.
    EXPECT_THAT(failure_of(libc + "assert c.ptrace(16, 1, 0, 0) == 0"), HasSubstr("AssertionError"));
    EXPECT_THAT(failure_of(libc + "assert c.unshare(0x10000000) == 0"), HasSubstr("AssertionError"));
    EXPECT_THAT(failure_of(libc + "assert c.mount(b'a', b'/tmp', b'tmpfs', 0, None) == 0"),
                HasSubstr("AssertionError"));
  }
}

TEST(PythonSandbox, MemoryAndTimeHaveTheirLimits) {
  EXPECT_THAT(failure_of("x = bytearray(1 << 30)"), HasSubstr("MemoryError"));
  EXPECT_THAT(failure_of("import os\nwhile True: os.dup(0)"), HasSubstr("OSError"));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(sandbox().run("while True: pass"), Outcome::kTimedOut);
  EXPECT_EQ(sandbox().run("import time\nwhile True:\n  try: time.sleep(99)\n  except BaseException: pass"),
            Outcome::kTimedOut);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(PythonSandbox, AMissingInterpreterIsNamed) {
  try {
    PythonSandbox nowhere("/nowhere/python3");
    FAIL() << "was made";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "the interpreter '/nowhere/python3' cannot be executed");
  }
  EXPECT_THROW(PythonSandbox("no-such-python"), ConfigError);
}

}  // namespace
}  // namespace stoa::eval
