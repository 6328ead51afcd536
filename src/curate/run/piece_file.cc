#include "curate/run/piece_file.h"

#include "base/error.h"

namespace stoa::curate {
namespace {

void append_value(std::uint64_t value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
void append_text(std::string_view text, std::string& out) {
  append_value(text.size(), out);
  out += text;
}

}  // namespace

void PieceWriter::add(const ProcessedBlock& block) {
  std::string out;
  append_value(block.position, out);
  for (const std::string* text : {&block.lines, &block.side, &block.tags}) append_text(*text, out);
  append_value(block.outcomes.size(), out);
  for (const Outcome& o : block.outcomes) {
    for (const std::uint64_t value :
         {std::uint64_t{static_cast<std::uint8_t>(o.fate)}, std::uint64_t{o.is_input}, std::uint64_t{o.begin},
          std::uint64_t{o.end}, std::uint64_t{o.side_begin}, std::uint64_t{o.side_end},
          std::uint64_t{o.tags_begin}, std::uint64_t{o.tags_end}, static_cast<std::uint64_t>(o.read_bytes),
          static_cast<std::uint64_t>(o.bytes), static_cast<std::uint64_t>(o.number)})
      append_value(value, out);
    append_text(o.reason, out);
  }
  file_.write(out);
}

PieceReader::PieceReader(const fs::path& path) : path_(path), file_(path, std::ios::binary) {
  require<IoError>(file_.is_open(), "cannot read '{}'", path.string());
}

std::uint64_t PieceReader::number() {
  std::uint64_t value = 0;
  file_.read(reinterpret_cast<char*>(&value), sizeof(value));
  require<DataError>(file_.good(), "'{}' ends too soon; remove it and run again", path_.string());
  return value;
}

void PieceReader::text(std::string& to) {
  to.resize(number());
  file_.read(to.data(), static_cast<std::streamsize>(to.size()));
  require<DataError>(file_.good(), "'{}' ends too soon; remove it and run again", path_.string());
}

bool PieceReader::next(ProcessedBlock& block) {
  if (file_.peek() == std::ifstream::traits_type::eof()) return false;
  block.position = number();
  for (std::string* to : {&block.lines, &block.side, &block.tags}) text(*to);
  block.outcomes.resize(number());
  for (Outcome& o : block.outcomes) {
    o.fate = static_cast<Fate>(number());
    o.is_input = number() != 0;
    for (std::size_t* to : {&o.begin, &o.end, &o.side_begin, &o.side_end, &o.tags_begin, &o.tags_end})
      *to = number();
    for (std::int64_t* to : {&o.read_bytes, &o.bytes, &o.number}) *to = static_cast<std::int64_t>(number());
    text(o.reason);
  }
  return true;
}

}  // namespace stoa::curate
