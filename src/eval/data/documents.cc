#include "eval/data/documents.h"

#include "base/error.h"
#include "data/byte_source.h"
#include "data/file_kind.h"

namespace stoa::eval {
namespace {

constexpr std::size_t kPiece = 1 << 20;

// Appends what comes next; false: nothing does.
bool append_piece(data::ByteSource& source, std::string& to) {
  const std::size_t before = to.size();
  to.resize(before + kPiece);
  const std::size_t n = source.read(to.data() + before, kPiece);
  to.resize(before + n);
  return n > 0;
}

Json parsed_line(std::string_view piece, const std::string& source, std::int64_t line) {
  try {
    return Json::parse(piece);
  } catch (const Json::parse_error& error) {
    fail<DataError>("{}:{}: not JSON: {}", source, line, error.what());
  }
}

void add_json(std::string_view text, const std::string& source, const std::string& field,
              std::vector<Json>& out) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (!field.empty()) {
    Json whole = parsed_line(text, source, 1);
    require<DataError>(whole.is_object() && whole.contains(field) && whole[field].is_array(),
                       "{}: expected an object whose '{}' is a list of documents", source, field);
    for (Json& doc : whole[field]) out.push_back(std::move(doc));
  } else if (strip_left(text.substr(0, 4096)).starts_with('[')) {
    Json list = parsed_line(text, source, 1);
    for (Json& doc : list) out.push_back(std::move(doc));
  } else {
    std::int64_t line = 0;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view piece = strip(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      ++line;
      if (!piece.empty()) out.push_back(parsed_line(piece, source, line));
    }
  }
  for (const Json& doc : out)
    require<DataError>(doc.is_object(), "{}: a document that is not an object", source);
}

// Fields that some documents lack become null in all.
void unite_fields(std::vector<Json>& docs) {
  std::vector<std::string> fields;
  bool same = true;
  for (const Json& doc : docs) {
    std::size_t i = 0;
    for (const auto& [key, value] : doc.items()) {
      if (i < fields.size() && fields[i] == key) {
        ++i;
        continue;
      }
      if (std::find(fields.begin(), fields.end(), key) == fields.end()) {
        same = same && &doc == docs.data();
        fields.push_back(key);
      } else {
        same = false;
      }
      ++i;
    }
    same = same && doc.size() == fields.size();
  }
  if (same) return;
  for (Json& doc : docs) {
    Json all = Json::object();
    for (const std::string& key : fields) all[key] = doc.contains(key) ? std::move(doc[key]) : Json();
    doc = std::move(all);
  }
}

// DataError: bytes that are no text.
std::string text_of(const fs::path& path) {
  std::string out = unpacked_content(path);
  data::require_utf8_text(out, "'" + path.string() + "'");
  return out;
}

}  // namespace

std::string unpacked_content(const fs::path& path) {
  const auto source = data::open_bytes(path);
  std::string out;
  while (append_piece(*source, out)) {
  }
  return out;
}

void each_json_line(const fs::path& path, const std::function<void(Json)>& visit) {
  const auto source = data::open_bytes(path);
  std::string text;
  std::int64_t line = 0;
  const auto take = [&](std::string_view raw) {
    if (++line == 1 && raw.starts_with("\xEF\xBB\xBF")) raw.remove_prefix(3);
    const std::string_view piece = strip(raw);
    if (piece.empty()) return;
    Json document = parsed_line(piece, path.string(), line);
    require<DataError>(document.is_object(), "{}:{}: a document that is not an object", path.string(), line);
    visit(std::move(document));
  };
  while (append_piece(*source, text)) {
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
      take(std::string_view(text).substr(begin, end - begin));
    text.erase(0, begin);
  }
  if (!text.empty()) take(text);
}

std::vector<Json> read_documents(const std::vector<fs::path>& files, const DocumentForm& form) {
  std::vector<Json> out;
  for (const fs::path& path : files) {
    std::string name = path.filename().string();
    for (const auto* packed : {".gz", ".zst"})
      if (name.ends_with(packed)) name.resize(name.size() - std::string_view(packed).size());
    std::vector<Json> here;
    if (name.ends_with(".jsonl") || name.ends_with(".json") || name.ends_with(".parquet") ||
        name.ends_with(".arrow")) {
      add_json(text_of(path), path.string(), form.field, here);
    } else if (name.ends_with(".csv") || name.ends_with(".tsv")) {
      const char usual = name.ends_with(".csv") ? ',' : '\t';
      here = parse_csv(text_of(path), form.separator.value_or(usual), path.string());
    } else {
      fail<DataError>(
          "'{}' cannot be read as documents: "
          "expected .jsonl, .json, .csv, .tsv, .parquet or .arrow",
          path.string());
    }
    for (Json& doc : here) out.push_back(std::move(doc));
  }
  unite_fields(out);
  return out;
}

}  // namespace stoa::eval
