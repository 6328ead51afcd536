#include "curate/code/source_language.h"

#include <algorithm>
#include <string>
#include <utility>

#include "data/file_names.h"

namespace stoa::curate {
namespace {

// Linguist's names; of extensions that several languages share, the most common one's.
constexpr std::pair<std::string_view, std::string_view> kByExtension[] = {
    {".ada", "Ada"},
    {".adb", "Ada"},
    {".ads", "Ada"},
    {".asm", "Assembly"},
    {".bash", "Shell"},
    {".c", "C"},
    {".cc", "C++"},
    {".clj", "Clojure"},
    {".cmake", "CMake"},
    {".cpp", "C++"},
    {".cs", "C#"},
    {".css", "CSS"},
    {".cu", "Cuda"},
    {".cuh", "Cuda"},
    {".cxx", "C++"},
    {".d", "D"},
    {".dart", "Dart"},
    {".el", "Emacs Lisp"},
    {".erl", "Erlang"},
    {".ex", "Elixir"},
    {".exs", "Elixir"},
    {".f", "Fortran"},
    {".f90", "Fortran"},
    {".f95", "Fortran"},
    {".fs", "F#"},
    {".go", "Go"},
    {".groovy", "Groovy"},
    {".h", "C"},
    {".hh", "C++"},
    {".hpp", "C++"},
    {".hs", "Haskell"},
    {".htm", "HTML"},
    {".html", "HTML"},
    {".hxx", "C++"},
    {".java", "Java"},
    {".jl", "Julia"},
    {".js", "JavaScript"},
    {".json", "JSON"},
    {".jsx", "JavaScript"},
    {".kt", "Kotlin"},
    {".lisp", "Common Lisp"},
    {".lua", "Lua"},
    {".m", "Objective-C"},
    {".md", "Markdown"},
    {".mjs", "JavaScript"},
    {".ml", "OCaml"},
    {".mli", "OCaml"},
    {".pas", "Pascal"},
    {".php", "PHP"},
    {".pl", "Perl"},
    {".pm", "Perl"},
    {".proto", "Protocol Buffer"},
    {".ps1", "PowerShell"},
    {".py", "Python"},
    {".pyi", "Python"},
    {".r", "R"},
    {".rb", "Ruby"},
    {".rs", "Rust"},
    {".rst", "reStructuredText"},
    {".s", "Assembly"},
    {".scala", "Scala"},
    {".scm", "Scheme"},
    {".sh", "Shell"},
    {".sql", "SQL"},
    {".swift", "Swift"},
    {".tcl", "Tcl"},
    {".tex", "TeX"},
    {".toml", "TOML"},
    {".ts", "TypeScript"},
    {".tsx", "TypeScript"},
    {".v", "Verilog"},
    {".vb", "Visual Basic .NET"},
    {".vhd", "VHDL"},
    {".vim", "Vim Script"},
    {".xml", "XML"},
    {".yaml", "YAML"},
    {".yml", "YAML"},
    {".zig", "Zig"},
};

struct CommentMarks {
  std::string_view language;
  std::string_view line;         // begins a comment up to the end of the line
  std::string_view open, close;  // of comments over lines; empty: none
  std::string_view quotes;       // begin strings
};
constexpr CommentMarks kCommentMarks[] = {
    {"C", "//", "/*", "*/", "\"'"},
    {"C++", "//", "/*", "*/", "\"'"},
    {"C#", "//", "/*", "*/", "\"'"},
    {"Cuda", "//", "/*", "*/", "\"'"},
    {"D", "//", "/*", "*/", "\"'"},
    {"Dart", "//", "/*", "*/", "\"'"},
    {"Go", "//", "/*", "*/", "\"'`"},
    {"Java", "//", "/*", "*/", "\"'"},
    {"JavaScript", "//", "/*", "*/", "\"'`"},
    {"Kotlin", "//", "/*", "*/", "\"'"},
    {"Lua", "--", "--[[", "]]", "\"'"},
    {"PHP", "//", "/*", "*/", "\"'"},
    {"Python", "#", "", "", "\"'"},
    {"R", "#", "", "", "\"'"},
    {"Ruby", "#", "", "", "\"'"},
    {"Rust", "//", "/*", "*/", "\""},
    {"Scala", "//", "/*", "*/", "\""},
    {"Shell", "#", "", "", "\"'"},
    {"SQL", "--", "/*", "*/", "'"},
    {"Swift", "//", "/*", "*/", "\""},
    {"TypeScript", "//", "/*", "*/", "\"'`"},
    {"Zig", "//", "", "", "\"'"},
};

// The end of a string that begins at `at`; strings of one quote end with the line, too.
std::size_t string_end(std::string_view text, std::size_t at, std::string_view quote, bool over_lines) {
  for (std::size_t i = at + quote.size(); i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text.substr(i).starts_with(quote))
      return i + quote.size();
    else if (text[i] == '\n' && !over_lines)
      return i;
  }
  return text.size();
}

// Whether nothing but white space stands before `at` on its line.
bool begins_line(std::string_view text, std::size_t at) {
  while (at > 0 && (text[at - 1] == ' ' || text[at - 1] == '\t')) --at;
  return at == 0 || text[at - 1] == '\n';
}

}  // namespace

std::string_view source_language(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  if (name == "Makefile" || name == "GNUmakefile") return "Makefile";
  if (name == "CMakeLists.txt") return "CMake";
  if (name == "Dockerfile") return "Dockerfile";
  const std::string extension = data::extension_of(path);
  const auto found =
      std::lower_bound(std::begin(kByExtension), std::end(kByExtension), extension,
                       [](const auto& entry, const std::string& key) { return entry.first < key; });
  return found != std::end(kByExtension) && found->first == extension ? found->second : std::string_view();
}

std::optional<double> comment_share(std::string_view text, std::string_view language) {
  const auto marks = std::find_if(std::begin(kCommentMarks), std::end(kCommentMarks),
                                  [&](const CommentMarks& m) { return m.language == language; });
  if (marks == std::end(kCommentMarks) || text.empty()) return std::nullopt;
  const bool python = language == "Python";
  std::size_t comments = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    if (!marks->open.empty() && rest.starts_with(marks->open)) {
      const std::size_t close = rest.find(marks->close, marks->open.size());
      const std::size_t length = close == rest.npos ? rest.size() : close + marks->close.size();
      comments += length;
      i += length;
    } else if (rest.starts_with(marks->line)) {
      const std::size_t length = std::min(rest.find('\n'), rest.size());
      comments += length;
      i += length;
    } else if (python && (rest.starts_with("\"\"\"") || rest.starts_with("'''"))) {
      const std::size_t end = string_end(text, i, rest.substr(0, 3), true);
      if (begins_line(text, i)) comments += end - i;  // a docstring
      i = end;
    } else if (marks->quotes.find(rest.front()) != marks->quotes.npos) {
      i = string_end(text, i, rest.substr(0, 1), rest.front() == '`');
    } else {
      ++i;
    }
  }
  return static_cast<double>(comments) / static_cast<double>(text.size());
}

}  // namespace stoa::curate
