// Lines that a person edits in a terminal, with the history of earlier lines, kept in a file between sessions
// (libedit).
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "base/file.h"
#include "cli/terminal_input.h"

namespace stoa::cli {

// $XDG_STATE_HOME/stoa/chat_history, by default in ~/.local/state; empty where there is no home.
fs::path history_file();

class LineEditor {
 public:
  // `history` may be empty: nothing is kept. `interrupted` is asked several times a second while a line is
  // awaited. The character type of the process becomes UTF-8.
  LineEditor(std::FILE* in, std::FILE* out, fs::path history, std::function<bool()> interrupted);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // As LineInput::next, after the prompt "> ".
  LineInput::Outcome next(std::string& line);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stoa::cli
