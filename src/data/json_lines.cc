#include "data/json_lines.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/nearest.h"
#include "data/text_reader.h"

namespace stoa::data {
namespace {

// Replaces escapes of halves of surrogate pairs that stand alone by U+FFFD, in place: web corpora have them,
// and simdjson refuses them. False when there are none.
bool mend_surrogates(std::string& line) {
  const auto unit = [&](std::size_t at) {  // the code unit of "\\uXXXX" at `at`, or 0
    std::uint32_t value = 0;
    if (at + 6 > line.size() || line[at] != '\\' || line[at + 1] != 'u') return value;
    const char* begin = line.data() + at + 2;
    const auto [end, error] = std::from_chars(begin, begin + 4, value, 16);
    return error == std::errc{} && end == begin + 4 ? value : 0;
  };
  bool mended = false;
  for (std::size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] != '\\') continue;
    const std::uint32_t high = unit(i);
    if (high >= 0xd800 && high < 0xe000) {
      const std::uint32_t low = unit(i + 6);
      if (high < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
        i += 11;
        continue;
      }
      line.replace(i, 6, "\\ufffd");
      mended = true;
    }
    ++i;
  }
  return mended;
}

// Whether a number is beyond what simdjson reads.
bool is_too_large(std::string_view number) {
  const bool whole = number.find_first_of(".eE") == number.npos;
  if (!whole) {
    double value = 0;
    return std::from_chars(number.data(), number.data() + number.size(), value).ec ==
           std::errc::result_out_of_range;
  }
  const bool negative = number.starts_with('-');
  const std::string_view digits = number.substr(negative ? 1 : 0);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc::result_out_of_range ||
         (error == std::errc() && negative && value > std::uint64_t{1} << 63);
}

// Replaces NaN and infinities by null, and numbers that are too large by texts, in place. False when there
// are none.
bool mend_numbers(std::string& line) {
  constexpr std::string_view kOfNumbers = "+-.0123456789eEINafinty";  // letters of NaN and Infinity, too
  std::string out;
  bool in_string = false, mended = false;
  for (std::size_t i = 0; i < line.size();) {
    const char c = line[i];
    if (in_string || (c != '-' && c != 'N' && c != 'I' && (c < '0' || c > '9'))) {
      const bool escape = in_string && c == '\\' && i + 1 < line.size();
      if (c == '"') in_string = !in_string;
      out.append(line, i, escape ? 2 : 1);
      i += escape ? 2 : 1;
      continue;
    }
    const std::size_t end = std::min(line.find_first_not_of(kOfNumbers, i), line.size());
    const std::string token = line.substr(i, end - i);
    if (token == "NaN" || token == "Infinity" || token == "-Infinity") {
      out += "null";
      mended = true;
    } else if (is_too_large(token)) {
      out += '"' + token + '"';
      mended = true;
    } else {
      out += token;
    }
    i = end;
  }
  if (mended) line = std::move(out);
  return mended;
}

std::string_view name_of(simdjson::dom::element_type type) {
  using Type = simdjson::dom::element_type;
  switch (type) {
    case Type::ARRAY:
      return "a list";
    case Type::OBJECT:
      return "an object";
    case Type::INT64:
    case Type::UINT64:
    case Type::DOUBLE:
      return "a number";
    case Type::STRING:
      return "a string";
    case Type::BOOL:
      return "true or false";
    case Type::NULL_VALUE:
      break;
  }
  return "null";
}

}  // namespace

simdjson::dom::object parse_json_line(simdjson::dom::parser& parser, std::string_view line,
                                      std::string& mended) {
  mended.clear();
  auto parsed = parser.parse(line.data(), line.size(), false);
  if (parsed.error() == simdjson::STRING_ERROR) {
    mended.assign(line);
    if (mend_surrogates(mended)) parsed = parser.parse(mended);
  }
  if (parsed.error() != simdjson::SUCCESS) {
    if (mended.empty()) mended.assign(line);
    if (mend_numbers(mended)) parsed = parser.parse(mended);
  }
  require<DataError>(parsed.error() == simdjson::SUCCESS, "not valid JSON ({})",
                     simdjson::error_message(parsed.error()));
  simdjson::dom::object object;
  require<DataError>(parsed.get(object) == simdjson::SUCCESS,
                     "expected a JSON object such as {{\"text\": \"…\"}}");
  return object;
}

std::string no_such_key(simdjson::dom::object object, const std::string& key) {
  std::vector<std::string> keys;
  std::string names;
  for (const auto& field : object) {
    if (keys.size() == 16) break;
    keys.emplace_back(field.key);
    names += (names.empty() ? "" : ", ") + keys.back();
  }
  return fmt::format("it has no key \"{}\"{}; its keys: {}", key, did_you_mean(key, keys),
                     names.empty() ? "none" : names);
}

// The DOM interface chooses its instruction set at run time; On-Demand would be compiled for the oldest CPU.
struct JsonLines::Parser {
  simdjson::dom::parser dom;
  std::string mended;
};

JsonLines::JsonLines(std::string key) : parser_(std::make_unique<Parser>()), key_(std::move(key)) {}
JsonLines::~JsonLines() = default;

// `readable` bytes from `line` on may be read (not used).
std::string_view JsonLines::text_of(const char* line, std::size_t bytes, std::size_t readable) {
  require<InternalError>(readable >= bytes + simdjson::SIMDJSON_PADDING, "a line without padding");
  const simdjson::dom::object object = parse_json_line(parser_->dom, {line, bytes}, parser_->mended);
  simdjson::dom::element value;
  bool found = false;
  for (const auto& field : object) {
    if (field.key != key_) continue;
    value = field.value;  // of equal keys the last counts, as in Python
    found = true;
  }
  if (!found) fail<DataError>("{}", no_such_key(object, key_));
  std::string_view text;
  require<DataError>(value.get(text) == simdjson::SUCCESS, "its \"{}\" is {}; expected a string", key_,
                     name_of(value.type()));
  return text;
}

void JsonLines::each(const Block& block, const std::function<void(std::string_view)>& visit) {
  const char* const text = block.text.view().data();
  const char* const readable = text + block.text.size() + kBlockPadding;
  std::int64_t number = block.first_line;
  for (const auto& [begin, end] : block.documents) {
    const char *first = text + begin, *const stop = text + end;
    while (first < stop && (*first == ' ' || *first == '\t' || *first == '\r')) ++first;
    if (first < stop) {
      std::string_view value;
      try {
        value = text_of(first, static_cast<std::size_t>(stop - first),
                        static_cast<std::size_t>(readable - first));
      } catch (const DataError& e) {
        fail<DataError>("'{}' line {}: {}", block.input->path.string(), number, e.what());
      }
      visit(value);
    }
    ++number;
  }
}

}  // namespace stoa::data
