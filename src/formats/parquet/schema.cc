#include "formats/parquet/schema.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"
#include "formats/parquet/thrift_compact.h"

namespace stoa::parquet {
namespace {

constexpr std::size_t kDeepestSchema = 64;

// A SchemaElement: a node of the tree, in depth-first order.
struct Element {
  Node node;
  std::int64_t children = 0;
};

template <class E>
E as_enum(std::int64_t value, E last, std::string_view what) {
  require<DataError>(value >= 0 && value <= static_cast<std::int64_t>(last), "{} number {} is not known",
                     what, value);
  return static_cast<E>(value);
}

// A time unit: a union of empty structures, of which the field number says which. Digits of the fraction.
std::int32_t read_unit(ThriftReader& in) {
  std::int32_t digits = 0;
  in.each_field([&](const auto& unit) {
    digits = 3 * unit.id;
    in.skip(unit.type);
  });
  return digits;
}

// By the numbers of LogicalType's fields and of ConvertedType; numbers beyond them mean nothing more.
constexpr Meaning kLogical[] = {Meaning::kPlain,     Meaning::kText,    Meaning::kMap,      Meaning::kList,
                                Meaning::kText,      Meaning::kDecimal, Meaning::kDate,     Meaning::kTime,
                                Meaning::kTimestamp, Meaning::kPlain,   Meaning::kUnsigned, Meaning::kPlain,
                                Meaning::kText,      Meaning::kPlain,   Meaning::kUuid,     Meaning::kHalf};
constexpr Meaning kConverted[] = {
    Meaning::kText,      Meaning::kMap,      Meaning::kMap,      Meaning::kList,     Meaning::kText,
    Meaning::kDecimal,   Meaning::kDate,     Meaning::kTime,     Meaning::kTime,     Meaning::kTimestamp,
    Meaning::kTimestamp, Meaning::kUnsigned, Meaning::kUnsigned, Meaning::kUnsigned, Meaning::kUnsigned,
    Meaning::kPlain,     Meaning::kPlain,    Meaning::kPlain,    Meaning::kPlain,    Meaning::kText};
Meaning meaning_of(std::span<const Meaning> meanings, std::int64_t number) {
  const bool known = number >= 0 && number < std::ssize(meanings);
  return known ? meanings[static_cast<std::size_t>(number)] : Meaning::kPlain;
}

// The LogicalType union.
void read_logical(ThriftReader& in, Node& node) {
  in.each_field([&](const auto& kind) {
    if (kind.type != ThriftReader::kStruct) return in.skip(kind.type);
    std::int32_t scale = 0, digits = 0;
    bool is_signed = true;
    in.each_field([&](const auto& field) {
      if (kind.id == 5 && field.id == 1)
        scale = static_cast<std::int32_t>(in.number(field));
      else if ((kind.id == 7 || kind.id == 8) && field.id == 2 && field.type == ThriftReader::kStruct)
        digits = read_unit(in);
      else if (kind.id == 10 && field.id == 2)
        is_signed = in.number(field) != 0;
      else
        in.skip(field.type);
    });
    node.meaning = meaning_of(kLogical, kind.id);
    if (kind.id == 5) node.digits = scale;
    if (kind.id == 7 || kind.id == 8) node.digits = digits;
    if (kind.id == 10 && is_signed) node.meaning = Meaning::kPlain;
  });
}

// The older ConvertedType, where there is no logical one.
void set_converted(std::int64_t converted, std::int32_t scale, Node& node) {
  node.meaning = meaning_of(kConverted, converted);
  if (node.meaning == Meaning::kDecimal) node.digits = scale;
  // In milliseconds or, the even ones, microseconds.
  if (converted >= 7 && converted <= 10) node.digits = converted % 2 == 1 ? 3 : 6;
}

Element read_element(ThriftReader& in) {
  Element out;
  Node& node = out.node;
  std::int64_t converted = -1;
  std::int32_t scale = 0;
  bool has_logical = false;
  in.each_field([&](const auto& field) {
    switch (field.id) {
      case 1:
        node.type = as_enum(in.number(field), Physical::kFixedBytes, "a column of type");
        break;
      case 2:
        node.length = static_cast<std::int32_t>(in.number(field));
        break;
      case 3:
        node.repetition = as_enum(in.number(field), Repetition::kRepeated, "a repetition");
        break;
      case 4:
        require<DataError>(field.type == ThriftReader::kBinary, "a column without a name");
        node.name = in.binary();
        break;
      case 5:
        out.children = in.number(field);
        break;
      case 6:
        converted = in.number(field);
        break;
      case 7:
        scale = static_cast<std::int32_t>(in.number(field));
        break;
      case 10:
        if (field.type != ThriftReader::kStruct) return in.skip(field.type);
        has_logical = true;
        read_logical(in, node);
        break;
      default:
        in.skip(field.type);
    }
  });
  if (!has_logical) set_converted(converted, scale, node);
  require<DataError>(node.type != Physical::kFixedBytes || (node.length > 0 && node.length <= (1 << 20)),
                     "column '{}' of {} fixed bytes", node.name, node.length);
  require<DataError>(node.digits >= 0 && node.digits <= 76, "column '{}' with {} digits behind the point",
                     node.name, node.digits);
  return out;
}

// Makes the tree of elements [at…): sets the levels, links children, counts leaves.
class TreeBuilder {
 public:
  TreeBuilder(std::vector<Element> elements, Footer& footer)
      : elements_(std::move(elements)), footer_(footer) {}

  void build() {
    require<DataError>(!elements_.empty() && elements_.front().children > 0, "the file has no columns");
    elements_.front().node.repetition = Repetition::kRequired;
    add(0, 0, 0);
    require<DataError>(at_ == elements_.size(), "columns that are not in the tree of columns");
  }

 private:
  std::size_t add(std::uint32_t definition, std::uint32_t repeat, std::size_t depth) {
    require<DataError>(at_ < elements_.size(), "the tree of columns ends too soon");
    require<DataError>(depth < kDeepestSchema, "columns nested deeper than {}", kDeepestSchema);
    const Element& element = elements_[at_++];
    const std::size_t index = footer_.nodes.size();
    footer_.nodes.push_back(element.node);
    if (element.node.repetition != Repetition::kRequired) ++definition;
    if (element.node.repetition == Repetition::kRepeated) ++repeat;
    const std::size_t first = footer_.leaves.size();
    std::vector<std::size_t> children;
    for (std::int64_t i = 0; i < element.children; ++i)
      children.push_back(add(definition, repeat, depth + 1));
    if (children.empty()) footer_.leaves.push_back(index);
    Node& node = footer_.nodes[index];
    node.children = std::move(children);
    node.definition = definition;
    node.repeat = repeat;
    node.first_column = first;
    node.columns = footer_.leaves.size() - first;
    return index;
  }

  std::vector<Element> elements_;
  Footer& footer_;
  std::size_t at_ = 0;
};

ColumnChunk read_chunk(ThriftReader& in, std::size_t file_bytes) {
  ColumnChunk out;
  std::int64_t data = 0, dictionary = 0, bytes = -1;
  in.each_field([&](const auto& field) {
    if (field.id == 8 || field.id == 9) fail<DataError>("the file is encrypted");
    if (field.id == 1 && field.type == ThriftReader::kBinary) {
      require<DataError>(in.binary().empty(), "its columns are in other files");
      return;
    }
    if (field.id != 3 || field.type != ThriftReader::kStruct) return in.skip(field.type);
    in.each_field([&](const auto& meta) {
      switch (meta.id) {
        case 4:
          out.codec = as_enum(in.number(meta), Codec::kLz4, "a codec");
          break;
        case 5:
          out.values = in.number(meta);
          break;
        case 7:
          bytes = in.number(meta);
          break;
        case 9:
          data = in.number(meta);
          break;
        case 11:
          dictionary = in.number(meta);
          break;
        default:
          in.skip(meta.type);
      }
    });
  });
  const std::int64_t begin = dictionary > 0 && dictionary < data ? dictionary : data;
  const auto size = static_cast<std::int64_t>(file_bytes);
  if (out.values == 0) return out;  // without pages, whatever its offsets say
  require<DataError>(begin >= 4 && bytes >= 0 && begin <= size && bytes <= size - begin && out.values > 0,
                     "a column of {} values in {} bytes from byte {}, in a file of {} bytes", out.values,
                     bytes, begin, size);
  out.begin = static_cast<std::uint64_t>(begin);
  out.end = static_cast<std::uint64_t>(begin + bytes);
  return out;
}

}  // namespace

Footer read_footer(std::string_view file) {
  constexpr std::string_view kMark = "PAR1";
  require<DataError>(!file.ends_with("PARE"), "the file is encrypted");
  require<DataError>(file.starts_with(kMark), "no Parquet file: it does not begin with PAR1");
  require<DataError>(file.size() >= 12 && file.ends_with(kMark),
                     "it does not end as a Parquet file does; is it complete?");
  std::uint32_t length = 0;
  std::memcpy(&length, file.data() + file.size() - 8, sizeof length);
  require<DataError>(length <= file.size() - 12, "a footer of {} bytes in a file of {}", length, file.size());
  const std::size_t end = file.size() - 8 - length;
  ThriftReader in(file.substr(end, length));
  Footer out;
  std::vector<Element> elements;
  in.each_field([&](const auto& field) {
    if (field.id == 2 && field.type == ThriftReader::kList) {
      in.each_element(ThriftReader::kStruct, [&] { elements.push_back(read_element(in)); });
    } else if (field.id == 4 && field.type == ThriftReader::kList) {
      in.each_element(ThriftReader::kStruct, [&] {
        RowGroup& group = out.groups.emplace_back();
        in.each_field([&](const auto& part) {
          if (part.id == 1 && part.type == ThriftReader::kList)
            in.each_element(ThriftReader::kStruct, [&] { group.columns.push_back(read_chunk(in, end)); });
          else if (part.id == 3)
            group.rows = in.number(part);
          else
            in.skip(part.type);
        });
      });
    } else {
      in.skip(field.type);
    }
  });
  TreeBuilder(std::move(elements), out).build();
  for (const RowGroup& group : out.groups) {
    require<DataError>(group.rows >= 0 && group.columns.size() == out.leaves.size(),
                       "a row group with {} rows of {} columns where the schema has {}", group.rows,
                       group.columns.size(), out.leaves.size());
    for (std::size_t c = 0; c < group.columns.size(); ++c) {
      const bool flat = out.nodes[out.leaves[c]].repeat == 0;
      require<DataError>(flat ? group.columns[c].values == group.rows : group.columns[c].values >= group.rows,
                         "column '{}' has {} values for {} rows", out.nodes[out.leaves[c]].name,
                         group.columns[c].values, group.rows);
    }
  }
  return out;
}

}  // namespace stoa::parquet
