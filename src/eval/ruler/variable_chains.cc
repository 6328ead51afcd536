// Chains of variables in a text of noise: VAR B = VAR A.
#include <algorithm>
#include <optional>
#include <set>

#include "eval/ruler/making.h"

namespace stoa::eval {
namespace {

constexpr std::int64_t kTokensOfNames = 30;
constexpr int kHops = 4;
constexpr std::string_view kNoiseLine =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.\n";
constexpr std::string_view kQuestion =
    "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n{context}\n"
    "Question: Find all variables that are assigned the value {query} in the text above.";
constexpr std::string_view kBeginning = " Answer: According to the chain(s) of variable assignment";
constexpr std::string_view kRestOfBeginning =
    " in the text above, {count} variables are assgined the value {query}, they are: ";

struct ChainText {
  std::string input;  // with the beginning of the answer
  std::vector<std::string> names;
};

// None: two variables have one name, or there is less noise than assignments.
std::optional<ChainText> chain_text(Making& making, std::int64_t noises, int letters) {
  ChainText out;
  for (int i = 0; i <= kHops; ++i) out.names.push_back(drawn_letters(making.python, 'A', letters));
  if (std::set<std::string>(out.names.begin(), out.names.end()).size() < out.names.size())
    return std::nullopt;
  const std::string value = std::to_string(making.numpy.integer(10'000, 99'999));
  std::vector<std::string> chain{"VAR " + out.names[0] + " = " + value};
  for (std::size_t i = 1; i < out.names.size(); ++i)
    chain.push_back("VAR " + out.names[i] + " = VAR " + out.names[i - 1] + " ");
  std::vector<std::string> sentences(static_cast<std::size_t>(std::max<std::int64_t>(noises, 0)),
                                     std::string(kNoiseLine));
  if (sentences.size() <= chain.size()) {
    std::vector<std::string> parts;
    for (const std::string& line : sentences)
      for (const auto piece : pieces_of(line, "."))
        parts.push_back(std::string(piece) + (strip(piece).empty() ? "" : "."));
    sentences = std::move(parts);
    if (sentences.size() <= chain.size()) return std::nullopt;
  }
  auto places = making.python.sample(sentences.size(), chain.size());
  std::sort(places.begin(), places.end());
  for (std::size_t i = 0; i < chain.size(); ++i)
    sentences.insert(sentences.begin() + static_cast<std::ptrdiff_t>(places[i] + i), chain[i]);
  std::string context;
  for (std::size_t i = 0; i < sentences.size(); ++i) context += (i == 0 ? "" : " ") + sentences[i];
  out.input = filled(std::string(kQuestion) + std::string(kBeginning) + std::string(kRestOfBeginning),
                     {{"context", replaced(context, ". \n", ".\n")},
                      {"query", value},
                      {"count", std::to_string(kHops + 1)}});
  return out;
}

// Texts of at most `longest` tokens; `example`: a solved one that goes before each, "": none.
std::vector<Json> chain_texts(Making& making, std::int64_t count, std::int64_t longest, std::int64_t step,
                              const std::string& example) {
  const int letters = example.empty() ? 3 : 5;
  const std::int64_t around = kTokensOfNames + (example.empty() ? 0 : making.tokens(example));
  std::int64_t noises = step;
  for (std::int64_t total = 0; total + around < longest; noises += step) {
    const auto text = chain_text(making, noises, letters);
    if (!text) continue;
    total = making.tokens(text->input + " " + str_of(Json(text->names)));
    if (total + around > longest) {
      noises -= step;
      break;
    }
  }
  std::vector<Json> out;
  for (std::int64_t index = 0; index < count; ++index) {
    std::int64_t used = noises;
    for (int tries = 0;;) {
      auto text = chain_text(making, used, letters);
      const std::int64_t length = text ? making.tokens(text->input) + around : longest + 1;
      if (length > longest) {
        constexpr int kTries = 50;  // names of other letters are other tokens, if few
        if (used > step)
          used -= step;
        else if (++tries > kTries)
          Making::too_short(example.empty() ? "the example of a chain of variables, whose length is fixed"
                                            : "chains of variables",
                            longest);
        continue;
      }
      std::string input = std::move(text->input);
      if (!example.empty()) {
        std::string shown = example;
        constexpr std::string_view kEnd = "they are: ";
        const std::string names = shown.substr(shown.find(kEnd) + kEnd.size());
        for (const auto name : words_of(names))
          shown = replaced(shown, name, drawn_letters(making.python, 'A', static_cast<int>(name.size())));
        input = shown + "\n\n" + input;
      }
      const std::size_t cut = input.rfind(kBeginning);
      const std::string beginning(strip(std::string_view(input).substr(cut)));
      out.push_back(Making::document(index, example.empty() ? input : input.substr(0, cut), Json(text->names),
                                     length, longest, beginning));
      break;
    }
  }
  return out;
}

}  // namespace

std::vector<Json> make_variable_chains(Making& making) {
  std::vector<Json> out;
  for (const std::int64_t length : making.lengths()) {
    constexpr std::int64_t kTokensOfExample = 500;
    const Json solved = chain_texts(making, 1, kTokensOfExample, 5, "").front();
    std::string example = solved["input"].get<std::string>() + " ";
    for (const Json& name : solved["outputs"]) example += name.get<std::string>() + " ";
    example.back() = '\n';
    for (Json& document : chain_texts(making, making.samples(), length, 10, example + "\n"))
      out.push_back(std::move(document));
  }
  return out;
}

}  // namespace stoa::eval
