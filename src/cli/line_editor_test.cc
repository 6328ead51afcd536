// Lines edited on a pseudo-terminal, key by key.
#include "cli/line_editor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "base/test_folder.h"

namespace stoa::cli {
namespace {

using Outcome = LineInput::Outcome;

class Terminal {
 public:
  // Whether this machine gives pseudo-terminals: a bare chroot has none.
  static bool can_be_had() {
    const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
    const bool usable = master >= 0 && ::grantpt(master) == 0 && ::unlockpt(master) == 0 &&
                        ::access(::ptsname(master), R_OK | W_OK) == 0;
    if (master >= 0) ::close(master);
    return usable;
  }
  Terminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    ::setenv("TERM", "xterm", 1);
    EXPECT_EQ(::grantpt(master_), 0);
    EXPECT_EQ(::unlockpt(master_), 0);
    slave_ = std::fopen(::ptsname(master_), "r+");
    EXPECT_NE(slave_, nullptr);
    // What the editor draws is read, so that it never waits.
    reader_ = std::jthread([this] {
      char buffer[4096];
      while (::read(master_, buffer, sizeof buffer) > 0) {
      }
    });
  }
  ~Terminal() {
    std::fclose(slave_);  // ends the reader
    reader_.join();
    ::close(master_);
  }
  // From another thread, once the editor reads key by key: before, the terminal would act on the keys.
  std::jthread type(std::string_view keys) const {
    return std::jthread([this, keys](const std::stop_token& stop) {
      termios modes{};
      while (!stop.stop_requested() && ::tcgetattr(master_, &modes) == 0 && (modes.c_lflag & ICANON))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_EQ(::write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
    });
  }
  std::FILE* file() const { return slave_; }

 private:
  int master_ = -1;
  std::FILE* slave_ = nullptr;
  std::jthread reader_;
};

std::string next(LineEditor& editor, const Terminal& terminal, std::string_view keys) {
  const std::jthread typed = terminal.type(keys);
  std::string line;
  EXPECT_EQ(editor.next(line), Outcome::kLine);
  return line;
}

TEST(LineEditor, EditsLinesAndKeepsThemBetweenSessions) {
  if (!Terminal::can_be_had()) GTEST_SKIP() << "no pseudo-terminals here";
  const TestFolder folder;
  const fs::path file = folder / "state/history";
  Terminal terminal;
  {
    LineEditor editor(terminal.file(), terminal.file(), file, [] { return false; });
    EXPECT_EQ(next(editor, terminal, "heloo\x7f\x7flo\r"), "hello");  // backspace
    EXPECT_EQ(next(editor, terminal, "orld\x01w\r"), "world");        // Ctrl-A: to the begin
    EXPECT_EQ(next(editor, terminal, "gr\u00fc\u00df\x7f\u00dfe\r"), "gr\u00fc\u00dfe");
    EXPECT_EQ(next(editor, terminal, "\x10\x10\r"), "world");  // Ctrl-P twice: the line before the last
    EXPECT_EQ(next(editor, terminal, "\r"), "");
  }
  EXPECT_EQ(fs::status(file).permissions() & fs::perms::all, fs::perms::owner_read | fs::perms::owner_write);
  LineEditor again(terminal.file(), terminal.file(), file, [] { return false; });
  EXPECT_EQ(next(again, terminal, "\x1b[A\r"), "world");  // the key up
  const std::jthread typed = terminal.type("\x04");       // Ctrl-D
  std::string line;
  EXPECT_EQ(again.next(line), Outcome::kEnd);
}

TEST(LineEditor, IsInterrupted) {
  if (!Terminal::can_be_had()) GTEST_SKIP() << "no pseudo-terminals here";
  Terminal terminal;
  bool asked = false;
  LineEditor editor(terminal.file(), terminal.file(), {}, [&] { return std::exchange(asked, true); });
  const std::jthread typed = terminal.type("half a line");
  std::string line;
  EXPECT_EQ(editor.next(line), Outcome::kInterrupted);
}

TEST(LineEditor, HistoryLiesInTheHomeOfItsOwner) {
  ::setenv("XDG_STATE_HOME", "/state", 1);
  EXPECT_EQ(history_file(), "/state/stoa/chat_history");
  ::unsetenv("XDG_STATE_HOME");
  ::setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(history_file(), "/home/someone/.local/state/stoa/chat_history");
  ::unsetenv("HOME");
  EXPECT_EQ(history_file(), "");
}

}  // namespace
}  // namespace stoa::cli
