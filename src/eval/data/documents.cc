#include "eval/data/documents.h"

#include "base/error.h"
#include "data/byte_source.h"

namespace stoa::eval {
namespace {

std::string whole_content(const fs::path& path) {
  const auto source = data::open_bytes(path);
  std::string out;
  constexpr std::size_t kPiece = 1 << 20;
  for (std::size_t n = 1; n > 0;) {
    const std::size_t before = out.size();
    out.resize(before + kPiece);
    n = source->read(out.data() + before, kPiece);
    out.resize(before + n);
  }
  return out;
}

void add_json(std::string_view text, const std::string& source, std::vector<Json>& out) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const auto parsed = [&](std::string_view piece, std::int64_t line) {
    try {
      return Json::parse(piece);
    } catch (const Json::parse_error& error) {
      fail<DataError>("{}:{}: not JSON: {}", source, line, error.what());
    }
  };
  if (strip_left(text.substr(0, 4096)).starts_with('[')) {
    Json list = parsed(text, 1);
    for (Json& doc : list) out.push_back(std::move(doc));
  } else {
    std::int64_t line = 0;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view piece = strip(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      ++line;
      if (!piece.empty()) out.push_back(parsed(piece, line));
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

}  // namespace

std::vector<Json> read_documents(const std::vector<fs::path>& files) {
  std::vector<Json> out;
  for (const fs::path& path : files) {
    std::string name = path.filename().string();
    for (const auto* packed : {".gz", ".zst"})
      if (name.ends_with(packed)) name.resize(name.size() - std::string_view(packed).size());
    std::vector<Json> here;
    if (name.ends_with(".jsonl") || name.ends_with(".json") || name.ends_with(".parquet") ||
        name.ends_with(".arrow")) {
      add_json(whole_content(path), path.string(), here);
    } else if (name.ends_with(".csv") || name.ends_with(".tsv")) {
      here = parse_csv(whole_content(path), name.ends_with(".csv") ? ',' : '\t', path.string());
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
