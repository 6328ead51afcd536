#include "formats/arrow/schema.h"

#include "base/error.h"

namespace stoa::arrow {
namespace {

using parquet::Meaning;
using parquet::Physical;

constexpr int kMostLevels = 64;
constexpr std::int64_t kMostBytes = 1 << 20;  // of a value of fixed size, or values of a list of fixed size

// Digits of the fraction of a second, of TimeUnit.
std::int32_t fraction_digits(std::int16_t unit) {
  require<DataError>(unit >= 0 && unit <= 3, "times in the unit {}", unit);
  return 3 * unit;
}

void set_leaf(Field& field, Layout layout, std::int64_t width, Physical type,
              Meaning meaning = Meaning::kPlain, std::int32_t digits = 0) {
  field.layout = layout;
  field.width = width;
  field.leaf.type = type;
  field.leaf.meaning = meaning;
  field.leaf.digits = digits;
}

void set_integer(Field& field, const FlatTable& type) {
  const auto bits = type.number<std::int32_t>(0, 0);
  require<DataError>(bits == 8 || bits == 16 || bits == 32 || bits == 64, "integers of {} bits", bits);
  field.is_signed = type.number<std::uint8_t>(1, 0) != 0;
  set_leaf(field, Layout::kFixed, bits / 8, Physical::kInt64,
           field.is_signed ? Meaning::kPlain : Meaning::kUnsigned);
}

void set_type(Field& field, std::uint8_t number, const FlatTable& type) {
  switch (number) {
    case 1:
      return set_leaf(field, Layout::kNull, 0, Physical::kBytes);
    case 2:
      return set_integer(field, type);
    case 3: {
      const auto precision = type.number<std::int16_t>(0, 0);
      require<DataError>(precision >= 0 && precision <= 2, "floating-point numbers of precision {}",
                         precision);
      return precision == 0   ? set_leaf(field, Layout::kFixed, 2, Physical::kFixedBytes, Meaning::kHalf)
             : precision == 1 ? set_leaf(field, Layout::kFixed, 4, Physical::kFloat)
                              : set_leaf(field, Layout::kFixed, 8, Physical::kDouble);
    }
    case 4:
    case 5:
      return set_leaf(field, Layout::kBytes, 4, Physical::kBytes,
                      number == 5 ? Meaning::kText : Meaning::kPlain);
    case 6:
      return set_leaf(field, Layout::kBits, 0, Physical::kBoolean);
    case 7: {
      const auto scale = type.number<std::int32_t>(1, 0), bits = type.number<std::int32_t>(2, 128);
      require<DataError>(scale >= 0 && scale <= 38 && (bits == 32 || bits == 64 || bits == 128),
                         "decimals of {} bits with {} digits behind the point", bits, scale);
      return set_leaf(field, Layout::kFixed, bits / 8, Physical::kFixedBytes, Meaning::kDecimal, scale);
    }
    case 8: {
      const bool days = type.number<std::int16_t>(0, 1) == 0;
      return days ? set_leaf(field, Layout::kFixed, 4, Physical::kInt64, Meaning::kDate)
                  : set_leaf(field, Layout::kFixed, 8, Physical::kInt64, Meaning::kTimestamp, 3);
    }
    case 9: {
      const auto bits = type.number<std::int32_t>(1, 32);
      require<DataError>(bits == 32 || bits == 64, "times of {} bits", bits);
      return set_leaf(field, Layout::kFixed, bits / 8, Physical::kInt64, Meaning::kTime,
                      fraction_digits(type.number<std::int16_t>(0, 1)));
    }
    case 10:
      return set_leaf(field, Layout::kFixed, 8, Physical::kInt64, Meaning::kTimestamp,
                      fraction_digits(type.number<std::int16_t>(0, 0)));
    case 15: {
      const auto bytes = type.number<std::int32_t>(0, 0);
      require<DataError>(bytes >= 0 && bytes <= kMostBytes, "values of {} bytes", bytes);
      return set_leaf(field, Layout::kFixed, bytes, Physical::kFixedBytes);
    }
    case 18:
      return set_leaf(field, Layout::kFixed, 8, Physical::kInt64);
    case 19:
    case 20:
      return set_leaf(field, Layout::kBytes, 8, Physical::kBytes,
                      number == 20 ? Meaning::kText : Meaning::kPlain);
    case 23:
    case 24:
      return set_leaf(field, Layout::kViews, 16, Physical::kBytes,
                      number == 24 ? Meaning::kText : Meaning::kPlain);
    case 12:
    case 17:
    case 21:
      field.layout = number == 17 ? Layout::kMap : Layout::kList;
      field.width = number == 21 ? 8 : 4;
      return;
    case 13:
      field.layout = Layout::kStruct;
      return;
    case 16:
      field.layout = Layout::kFixedList;
      field.width = type.number<std::int32_t>(0, 0);
      require<DataError>(field.width >= 0 && field.width <= kMostBytes, "lists of {} values", field.width);
      return;
    default:
      fail<DataError>("the column '{}' is of Arrow's type {}, which is not read (unions, intervals, runs)",
                      field.name, number);
  }
}

Field read_field(const FlatTable& table, int level) {
  require<DataError>(level < kMostLevels, "a schema of more than {} levels", kMostLevels);
  Field out;
  out.name = table.text(0);
  set_type(out, table.number<std::uint8_t>(2, 0), table.table(3));
  if (table.has(4)) {
    const FlatTable encoding = table.table(4);
    Field index;
    if (encoding.has(1))
      set_integer(index, encoding.table(1));
    else
      index.width = 4;
    out.dictionary = Field::Dictionary{encoding.number<std::int64_t>(0, 0), index.width, index.is_signed};
  }
  const FlatVector children = table.vector(5, 4);
  for (std::size_t i = 0; i < children.size(); ++i)
    out.children.push_back(read_field(children.table(i), level + 1));
  const bool one = out.layout == Layout::kList || out.layout == Layout::kFixedList;
  require<DataError>(!one || out.children.size() == 1, "the list '{}' has {} children", out.name,
                     out.children.size());
  require<DataError>(
      out.layout != Layout::kMap || (out.children.size() == 1 && out.children[0].layout == Layout::kStruct &&
                                     out.children[0].children.size() == 2),
      "the map '{}' is not one of keys and values", out.name);
  return out;
}

}  // namespace

std::vector<Field> read_schema(const FlatTable& schema) {
  require<DataError>(schema.number<std::int16_t>(0, 0) == 0, "Arrow data of a big-endian machine");
  std::vector<Field> out;
  const FlatVector fields = schema.vector(1, 4);
  for (std::size_t i = 0; i < fields.size(); ++i) out.push_back(read_field(fields.table(i), 0));
  return out;
}

}  // namespace stoa::arrow
