#include "formats/parquet/row_reader.h"

#include "base/error.h"
#include "base/escape.h"
#include "formats/parquet/json_value.h"

namespace stoa::parquet {

RowReader::RowReader(std::string_view file, std::string name) : file_(file), name_(std::move(name)) {
  try {
    footer_ = read_footer(file);
  } catch (const DataError& error) {
    fail<DataError>("'{}': {}", name_, error.what());
  }
  for (const RowGroup& group : footer_.groups) rows_ += group.rows;
}

std::uint64_t RowReader::position() const {
  const double share = rows_ > 0 ? static_cast<double>(row_) / static_cast<double>(rows_) : 1;
  return static_cast<std::uint64_t>(share * static_cast<double>(file_.size()));
}

bool RowReader::open_group() {
  while (left_ == 0) {
    if (group_ == footer_.groups.size()) return false;
    const RowGroup& group = footer_.groups[group_++];
    columns_.clear();
    columns_.reserve(group.columns.size());  // they may not move once they are read
    for (std::size_t c = 0; c < group.columns.size(); ++c)
      columns_.emplace_back(file_, group.columns[c], footer_.nodes[footer_.leaves[c]]);
    left_ = group.rows;
  }
  return true;
}

bool RowReader::next(std::string& out) {
  try {
    if (!open_group()) return false;
    write_fields(footer_.nodes.front(), 0, out);
    out += '\n';
    --left_;
    ++row_;
    for (std::size_t c = 0; left_ == 0 && c < columns_.size(); ++c) {
      column_ = footer_.nodes[footer_.leaves[c]].name;
      require<DataError>(columns_[c].at_end(), "it has more values than its row group has rows");
    }
  } catch (const DataError& error) {
    fail<DataError>("'{}' row {}, column '{}': {}", name_, row_ + 1, column_, error.what());
  }
  return true;
}

// All columns below a node say the same about what begins here, or the file is corrupt.
void RowReader::check(const Node& node, std::uint32_t repetition) {
  for (std::size_t c = node.first_column; c < node.first_column + node.columns; ++c) {
    column_ = footer_.nodes[footer_.leaves[c]].name;
    require<DataError>(columns_[c].repetition() == repetition, "its rows are not those of the other columns");
  }
}

void RowReader::skip(const Node& node, std::uint32_t repetition) {
  check(node, repetition);
  const std::uint32_t level = first_column(node).definition();
  for (std::size_t c = node.first_column; c < node.first_column + node.columns; ++c) {
    column_ = footer_.nodes[footer_.leaves[c]].name;
    require<DataError>(columns_[c].definition() == level, "its nulls are not those of the other columns");
    columns_[c].take();
  }
}

// The node of a list's elements; null for other nodes (LogicalTypes.md, "Lists").
const Node* RowReader::list_element(const Node& node) const {
  if (node.meaning != Meaning::kList || node.children.size() != 1) return nullptr;
  const Node& repeated = child(node, 0);
  if (repeated.repetition != Repetition::kRepeated) return nullptr;
  const bool is_element =
      repeated.children.size() != 1 || repeated.name == "array" || repeated.name == node.name + "_tuple";
  return is_element ? &repeated : &child(repeated, 0);
}

bool RowReader::is_map(const Node& node) const {
  if (node.meaning != Meaning::kMap || node.children.size() != 1) return false;
  const Node& entry = child(node, 0);
  return entry.repetition == Repetition::kRepeated && entry.children.size() == 2 &&
         child(entry, 0).children.empty() && child(entry, 0).repetition == Repetition::kRequired;
}

void RowReader::write_fields(const Node& node, std::uint32_t repetition, std::string& out) {
  out += '{';
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    const Node& field = child(node, i);
    if (i > 0) out += ',';
    column_ = field.name;
    append_json_string(field.name, out);
    out += ':';
    if (field.repetition == Repetition::kRepeated)
      write_list(field, field, repetition, out);  // a list without a group of its own
    else
      write(field, repetition, out);
  }
  out += '}';
}

// What is under `repeated`, as often as it is repeated.
void RowReader::write_list(const Node& repeated, const Node& element, std::uint32_t repetition,
                           std::string& out) {
  if (first_column(repeated).definition() < repeated.definition) {
    skip(repeated, repetition);
    out += "[]";
    return;
  }
  out += '[';
  for (bool more = true; more; repetition = repeated.repeat) {
    if (&repeated == &element)
      write_present(element, repetition, out);
    else
      write(element, repetition, out);
    ColumnReader& first = first_column(repeated);
    more = !first.at_end() && first.repetition() == repeated.repeat;
    if (more) out += ',';
  }
  out += ']';
}

void RowReader::write_map(const Node& node, std::uint32_t repetition, std::string& out) {
  const Node& entry = child(node, 0);
  if (first_column(entry).definition() < entry.definition) {
    skip(entry, repetition);
    out += "{}";
    return;
  }
  out += '{';
  for (bool more = true; more; repetition = entry.repeat) {
    std::string key;
    write(child(entry, 0), repetition, key);
    if (key.starts_with('"'))
      out += key;
    else
      append_json_string(key, out);
    out += ':';
    write(child(entry, 1), repetition, out);
    ColumnReader& first = first_column(entry);
    more = !first.at_end() && first.repetition() == entry.repeat;
    if (more) out += ',';
  }
  out += '}';
}

void RowReader::write(const Node& node, std::uint32_t repetition, std::string& out) {
  if (node.repetition == Repetition::kOptional && first_column(node).definition() < node.definition) {
    skip(node, repetition);
    out += "null";
    return;
  }
  write_present(node, repetition, out);
}

void RowReader::write_present(const Node& node, std::uint32_t repetition, std::string& out) {
  if (const Node* const element = list_element(node)) {
    write_list(child(node, 0), *element, repetition, out);
  } else if (is_map(node)) {
    write_map(node, repetition, out);
  } else if (!node.children.empty()) {
    write_fields(node, repetition, out);
  } else {
    check(node, repetition);
    ColumnReader& column = first_column(node);
    require<DataError>(column.definition() == node.definition,
                       "its nulls are not those of the other columns");
    append_json_value(column.take(), node, out);
  }
}

}  // namespace stoa::parquet
