#include "plan/csv.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::plan {

int CsvTable::column(std::string_view name) const {
  const auto at = std::find(header.begin(), header.end(), name);
  return at == header.end() ? -1 : static_cast<int>(at - header.begin());
}

CsvTable parse_csv(std::string_view text, const std::string& source) {
  CsvTable table;
  std::vector<std::string> fields;
  std::string field;
  int line = 1, begin = 1;
  bool quoted = false, any = false;
  const auto end_row = [&] {
    fields.push_back(std::move(field));
    field.clear();
    if (fields.size() == 1 && fields[0].empty() && !any) {
      fields.clear();  // an empty line
    } else if (table.header.empty()) {
      table.header = std::move(fields);
    } else {
      require<DataError>(fields.size() == table.header.size(),
                         "{}:{}: {} fields, expected {} as in the header", source, begin, fields.size(),
                         table.header.size());
      table.rows.push_back(std::move(fields));
    }
    fields = {};
    any = false;
    begin = line;
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') ++line;
    if (quoted) {
      if (c != '"')
        field += c;
      else if (at + 1 < text.size() && text[at + 1] == '"')
        field += text[++at];
      else
        quoted = false;
    } else if (c == '"' && field.empty()) {
      quoted = any = true;
    } else if (c == ',') {
      fields.push_back(std::move(field));
      field.clear();
      any = true;
    } else if (c == '\n') {
      end_row();
    } else if (c != '\r') {
      field += c;
    }
  }
  require<DataError>(!quoted, "{}:{}: a quote does not end", source, begin);
  if (!field.empty() || !fields.empty()) end_row();
  require<DataError>(!table.header.empty(), "{}: no header, expected the names of columns in the first line",
                     source);
  return table;
}

CsvTable read_csv(const fs::path& path) { return parse_csv(read_text(path), path.string()); }

std::string write_csv(const CsvTable& table) {
  std::string out;
  const auto put = [&](const std::vector<std::string>& fields) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (i) out += ',';
      if (fields[i].find_first_of(",\"\n\r") == std::string::npos) {
        out += fields[i];
        continue;
      }
      out += '"';
      for (const char c : fields[i]) {
        if (c == '"') out += '"';
        out += c;
      }
      out += '"';
    }
    out += '\n';
  };
  put(table.header);
  for (const auto& row : table.rows) put(row);
  return out;
}

}  // namespace stoa::plan
