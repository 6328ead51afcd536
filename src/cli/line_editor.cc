#include "cli/line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <cwchar>

#include "base/error.h"

namespace stoa::cli {
namespace {

constexpr int kMostLines = 1000;  // of the history

}  // namespace

struct LineEditor::State {
  EditLine* editor = nullptr;
  History* history = nullptr;
  HistEvent event{};
  fs::path file;
  std::function<bool()> interrupted;
  int input = -1;

  // libedit asks for a character: 1, or 0 at the end of the input and after Ctrl-C.
  static int read_character(EditLine* editor, wchar_t* character) {
    void* data = nullptr;
    el_get(editor, EL_CLIENTDATA, &data);
    const State& state = *static_cast<State*>(data);
    std::mbstate_t shift{};
    for (;;) {
      pollfd ready{state.input, POLLIN, 0};
      const int count = ::poll(&ready, 1, 100);
      if (state.interrupted()) return 0;
      if (count < 0 && errno != EINTR) return -1;
      if (count <= 0) continue;
      char byte = 0;
      const ssize_t got = ::read(state.input, &byte, 1);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) return 0;
      const std::size_t length = std::mbrtowc(character, &byte, 1, &shift);
      if (length == static_cast<std::size_t>(-2)) continue;  // more bytes to come
      if (length != static_cast<std::size_t>(-1)) return 1;
      shift = {};  // no UTF-8: dropped
    }
  }

  static char* prompt(EditLine*) {
    static char text[] = "> ";
    return text;
  }
};

fs::path history_file() {
  const char *state = std::getenv("XDG_STATE_HOME"), *home = std::getenv("HOME");
  if (state && *state == '/') return fs::path(state) / "stoa/chat_history";
  if (home && *home == '/') return fs::path(home) / ".local/state/stoa/chat_history";
  return {};
}

LineEditor::LineEditor(std::FILE* in, std::FILE* out, fs::path history, std::function<bool()> interrupted)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.file = std::move(history);
  s.interrupted = std::move(interrupted);
  s.input = ::fileno(in);
  std::setlocale(LC_CTYPE, "C.UTF-8");
  s.editor = el_init("stoa", in, out, stderr);
  s.history = history_init();
  require<IoError>(s.editor && s.history, "cannot edit lines of this terminal");
  ::history(s.history, &s.event, H_SETSIZE, kMostLines);
  ::history(s.history, &s.event, H_SETUNIQUE, 1);
  std::error_code ignored;
  if (fs::is_regular_file(s.file, ignored)) ::history(s.history, &s.event, H_LOAD, s.file.c_str());
  el_set(s.editor, EL_CLIENTDATA, &s);
  el_set(s.editor, EL_GETCFN, &State::read_character);
  el_set(s.editor, EL_PROMPT, &State::prompt);
  el_set(s.editor, EL_EDITOR, "emacs");
  el_set(s.editor, EL_HIST, ::history, s.history);
  el_set(s.editor, EL_SIGNAL, 0);
  el_set(s.editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
}

LineEditor::~LineEditor() {
  if (state_->editor) el_end(state_->editor);
  if (state_->history) history_end(state_->history);
}

LineInput::Outcome LineEditor::next(std::string& line) {
  State& s = *state_;
  int count = 0;
  const char* text = el_gets(s.editor, &count);
  if (s.interrupted()) {
    el_reset(s.editor);
    return LineInput::Outcome::kInterrupted;
  }
  if (!text || count <= 0) return LineInput::Outcome::kEnd;
  line.assign(text, static_cast<std::size_t>(count));
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  if (line.empty()) return LineInput::Outcome::kLine;
  ::history(s.history, &s.event, H_ENTER, text);
  if (s.file.empty()) return LineInput::Outcome::kLine;
  // A history that cannot be kept is no reason to end a conversation.
  std::error_code ignored;
  fs::create_directories(s.file.parent_path(), ignored);
  const bool fresh = !fs::exists(s.file, ignored);
  ::history(s.history, &s.event, H_SAVE, s.file.c_str());
  if (fresh) fs::permissions(s.file, fs::perms::owner_read | fs::perms::owner_write, ignored);
  return LineInput::Outcome::kLine;
}

}  // namespace stoa::cli
