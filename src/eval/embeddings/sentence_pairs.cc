#include "eval/embeddings/sentence_pairs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "eval/data/documents.h"
#include "eval/embeddings/correlation.h"

namespace stoa::eval {
namespace {

struct PairColumns {
  const char *first, *second, *score;
};
constexpr PairColumns kPairColumns[]{{"sentence1", "sentence2", "score"},
                                     {"sentence1", "sentence2", "label"},
                                     {"sentence1", "sentence2", "similarity_score"},
                                     {"sentence_A", "sentence_B", "relatedness_score"}};

template <class Has>
const PairColumns& find_columns(const Has& has, const std::string& source) {
  for (const PairColumns& c : kPairColumns)
    if (has(c.first) && has(c.second) && has(c.score)) return c;
  fail<DataError>("{}: expected columns sentence1, sentence2 and score", source);
}

double score_of(std::string_view text, const std::string& source, std::size_t line) {
  const std::optional<double> value = python_float(text);
  require<DataError>(value && std::isfinite(*value), "{}:{}: the score '{}' is not a number", source, line,
                     text);
  return *value;
}

std::vector<SentencePair> pairs_of_table(std::string_view text, const std::string& source) {
  std::vector<SentencePair> out;
  std::optional<std::array<std::size_t, 3>> columns;
  std::size_t line = 0;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line;
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.empty()) continue;
    const std::vector<std::string_view> cells = pieces_of(row, "\t");
    if (!columns) {
      if (cells.size() >= 7 && python_float(cells[4])) {
        columns = {5, 6, 4};
      } else {
        const auto place = [&](const char* name) { return std::find(cells.begin(), cells.end(), name); };
        const PairColumns& c =
            find_columns([&](const char* name) { return place(name) != cells.end(); }, source);
        columns.emplace();
        std::size_t i = 0;
        for (const char* name : {c.first, c.second, c.score})
          (*columns)[i++] = static_cast<std::size_t>(place(name) - cells.begin());
        continue;
      }
    }
    const auto cell = [&](std::size_t i) {
      require<DataError>((*columns)[i] < cells.size(), "{}:{}: {} columns, expected at least {}", source,
                         line, cells.size(), (*columns)[i] + 1);
      return cells[(*columns)[i]];
    };
    out.push_back({std::string(cell(0)), std::string(cell(1)), score_of(cell(2), source, line)});
  }
  return out;
}

std::vector<SentencePair> pairs_of_documents(const fs::path& path) {
  const std::vector<Json> documents = read_documents({path});
  std::vector<SentencePair> out;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const Json& d = documents[i];
    const PairColumns& c = find_columns([&](const char* name) { return d.contains(name); }, path.string());
    require<DataError>(d[c.first].is_string() && d[c.second].is_string(),
                       "{}: pair {}: a sentence that is not text", path.string(), i);
    out.push_back({d[c.first], d[c.second], score_of(str_of(d[c.score]), path.string(), i + 1)});
  }
  return out;
}

// Of two vectors, all in double precision.
struct Products {
  double dot = 0, first = 0, second = 0, squares = 0, absolute = 0;

  Products(std::span<const float> a, std::span<const float> b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
      dot += x * y;
      first += x * x;
      second += y * y;
      squares += (x - y) * (x - y);
      absolute += std::abs(x - y);
    }
  }
};

}  // namespace

std::vector<SentencePair> read_sentence_pairs(const fs::path& path) {
  bool table = false;  // columns at tabs, whatever the file is called
  std::string text;
  const std::string name = path.filename().string();
  if (name.find(".tsv") != std::string::npos || name.find(".csv") != std::string::npos) {
    text = unpacked_content(path);
    table = std::string_view(text).substr(0, text.find('\n')).find('\t') != std::string_view::npos;
  }
  std::vector<SentencePair> out = table ? pairs_of_table(text, path.string()) : pairs_of_documents(path);
  require<DataError>(out.size() >= 2, "{}: {} pairs of sentences, expected at least 2", path.string(),
                     out.size());
  return out;
}

std::map<std::string, Agreement> agreements(std::span<const float> first, std::span<const float> second,
                                            std::size_t dimension, std::span<const double> scores) {
  std::map<std::string, std::vector<double>> similarities;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const Products p(first.subspan(i * dimension, dimension), second.subspan(i * dimension, dimension));
    const double sizes = std::sqrt(p.first) * std::sqrt(p.second);
    similarities["cosine"].push_back(sizes == 0 ? 0 : p.dot / sizes);
    similarities["dot"].push_back(p.dot);
    similarities["euclidean"].push_back(-std::sqrt(p.squares));
    similarities["manhattan"].push_back(-p.absolute);
  }
  std::map<std::string, Agreement> out;
  for (const auto& [name, values] : similarities)
    out[name] = {pearson(values, scores), spearman(values, scores)};
  return out;
}

}  // namespace stoa::eval
