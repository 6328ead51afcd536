#include "ckpt/torch/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/test_paths.h"

namespace stoa::ckpt::torch {
namespace {

using ::testing::HasSubstr, testing::ThrowsMessage;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void expect_refused(std::string_view text, const std::string& message) {
  EXPECT_THAT([&] { Pickle(bytes_of(text), "file.pt"); }, ThrowsMessage<DataError>(HasSubstr(message)));
}

class PickleOfProtocol : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Pickle, PickleOfProtocol, testing::Range(0, 6));

// The values of tests/oracle/make_torch_fixtures.py, as Python wrote them.
TEST_P(PickleOfProtocol, HoldsTheValuesThatPythonWrote) {
  const MappedFile file(test::source_dir() / fmt::format("tests/fixtures/torch/values.{}.pkl", GetParam()));
  const Pickle pickle(file.bytes(), "values");
  EXPECT_EQ(pickle.bytes_read(), file.size());
  const Value root = pickle.root();
  const auto at = [&](std::string_view key) { return root.find(key).value(); };
  EXPECT_EQ(root.size(), 14u);
  EXPECT_TRUE(at("none").is(ValueKind::kNone));
  EXPECT_TRUE(at("flags")[0].boolean());
  EXPECT_FALSE(at("flags")[1].boolean());
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  const std::int64_t ints[] = {0,
                               255,
                               256,
                               65535,
                               65536,
                               -1,
                               -2147483648LL,
                               2147483648LL,
                               1LL << 40,
                               kMin,
                               std::numeric_limits<std::int64_t>::max()};
  ASSERT_EQ(at("ints").size(), std::size(ints));
  for (std::size_t i = 0; i < std::size(ints); ++i) EXPECT_EQ(at("ints")[i].integer(), ints[i]);
  EXPECT_TRUE(at("large").is(ValueKind::kBigInt));
  EXPECT_EQ(at("large").text(), std::string(8, '\0') + std::string(1, '\x40'));
  EXPECT_EQ(at("floats")[0].number(), 0.5);
  EXPECT_EQ(at("floats")[1].number(), -1e300);
  EXPECT_EQ(at("floats")[2].number(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(at("text").text(), "it's \"\u00e9\u4e16\U0001f600\"\n\\");
  EXPECT_TRUE(at("bytes").is(ValueKind::kBytes));
  EXPECT_EQ(at("bytes").text(), std::string_view("\0\xff\n'", 4));
  ASSERT_EQ(at("tuples").size(), 5u);
  for (std::size_t n = 0; n < 5; ++n) {
    EXPECT_TRUE(at("tuples")[n].is(ValueKind::kTuple));
    EXPECT_EQ(at("tuples")[n].size(), n);
  }
  EXPECT_EQ(at("nested").find("a")->find("b").value()[0].find("c")->integer(), 1);
  EXPECT_EQ(at("nested").key(1).integer(), 7);
  EXPECT_EQ(at("nested").value(1).text(), "seven");
  EXPECT_EQ(at("same").id(), at("nested").id()) << "one object in Python";
  EXPECT_TRUE(at("set").is(ValueKind::kSet));
  EXPECT_EQ(at("set")[0].integer(), 5);
  EXPECT_EQ(at("ordered").find("y")->integer(), 2);
  EXPECT_EQ(at("default").find("k").value()[0].integer(), 1);
  EXPECT_TRUE(at("deque").is(ValueKind::kList));
  EXPECT_EQ(at("deque").size(), 2u);
  EXPECT_FALSE(root.find("absent"));
}

TEST_P(PickleOfProtocol, IsRefusedWhereverItEnds) {
  const std::string text =
      read_text(test::source_dir() / fmt::format("tests/fixtures/torch/values.{}.pkl", GetParam()));
  for (std::size_t n = 0; n < text.size(); ++n) {
    const std::string part(text, 0, n);  // of this size: a sanitizer sees the first byte beyond it
    EXPECT_THROW(Pickle(bytes_of(part), "part"), DataError) << n;
  }
}

TEST(Pickle, CallsNothingThatIsNotInItsList) {
  expect_refused("cos\nsystem\n(S'echo hacked'\ntR.", "'file.pt' calls for 'os.system'");
  expect_refused("\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02ls\x85R.", "'posix.system'");
  expect_refused("c__builtin__\neval\n(S'1'\ntR.", "'builtins.eval'");
  expect_refused("ctorch\nload\n.", "'torch.load'");
  expect_refused("ctorch.storage\n_load_from_bytes\n.", "'torch.storage._load_from_bytes'");
  expect_refused("ctorch\nfloat32\n)R.", "calls torch.float32");
  expect_refused("c../x\ny\n.", "names something that is no name");
  expect_refused("(S'a'\nios\nsystem\n.", "operation 0x69");  // INST
  expect_refused("S'a'\n\x82\x01.", "operation 0x82");        // EXT1
}

TEST(Pickle, SaysWhatIsDamaged) {
  expect_refused("", "truncated?");
  expect_refused("\x80\x06N.", "protocol 6");
  expect_refused("NN.", "ends with 2 values");
  expect_refused(".", "ends with 0 values");
  expect_refused("(N.", "ends with 1 values");
  expect_refused("0.", "empty stack");
  expect_refused("(a.", "empty stack");
  expect_refused("Nt.", "no mark");
  expect_refused("NNs.", "empty stack");
  expect_refused("NN\x85s.", "empty stack");
  expect_refused("NNNs.", "sets items of None");
  expect_refused("NNa.", "appends to None");
  expect_refused("}(Nu.", "a key without a value");
  expect_refused("h\x05.", "which it never remembered");
  expect_refused(std::string_view("Nr\xff\xff\xff\x0f.", 7), "remembers value");
  expect_refused(
      "X\x02\x02\x02\x02"
      "ab.",
      "truncated?");
  expect_refused(std::string_view("X\x01\0\0\0\xff.", 7), "not UTF-8");
  expect_refused("I12x\n.", "not an int");
  expect_refused("I\n.", "not an int");
  expect_refused("Fabc\n.", "no float");
  expect_refused("S'abc\n.", "without quotes");
  expect_refused("NQ.", "refers to None");
  expect_refused("NN\x86Q.", "without a kind");
}

TEST(Pickle, StaysWithinBounds) {
  expect_refused(std::string(20'000, '('), "nested more than 10000 deep");
  // One list of 1000, copied again and again.
  std::string text = "(";
  for (int i = 0; i < 1000; ++i) text += 'N';
  text +=
      "tq\x01"
      "0ctorch\nSize\nq\x02"
      "0(";
  text.replace(text.find("q\x01"), 2, std::string("q\0", 2));
  text.replace(text.find("q\x02"), 2, "q\x01");
  for (int i = 0; i < 1000; ++i) text += std::string("h\x01h\0\x85R", 6);
  expect_refused(text + "t.", "many copies");
  // A list that holds itself is a value as any other.
  const std::string circle("]q\0h\0a.", 7);
  const Pickle pickle(bytes_of(circle), "circle");
  EXPECT_EQ(pickle.root()[0].id(), pickle.root().id());
}

TEST(Pickle, ChecksTensorsAgainstTheirStorage) {
  const auto tensor = [](const std::string& arguments) {
    return "ctorch._utils\n_rebuild_tensor_v2\n((S'storage'\nctorch\nFloatStorage\nS'0'\nS'cpu'\nI6\ntQ" +
           arguments + "I00\nNtR.";
  };
  const std::string good = tensor("I1\n(I2\nI2\nt(I2\nI1\nt");
  const Pickle pickle(bytes_of(good), "good");
  const TensorValue& value = pickle.root().tensor();
  EXPECT_EQ(value.elements(), 4);
  EXPECT_EQ(value.offset, 1);
  EXPECT_EQ(value.type->name, "float32");
  EXPECT_EQ(value.storage.key, "0");
  for (const char* arguments : {"I3\n(I2\nI2\nt(I2\nI1\nt", "I0\n(I7\nt(I1\nt", "I0\n(I2\nt(I6\nt",
                                "I0\n(I9223372036854775807\nI9223372036854775807\nt(I0\nI0\nt",
                                "I9223372036854775807\n(I1\nt(I1\nt", "I0\n(I2\nt(I9223372036854775807\nt"})
    expect_refused(tensor(arguments), "beyond its storage '0' of 24 bytes");
  expect_refused(tensor("I-1\n(I1\nt(I1\nt"), "at the int -1");
  expect_refused(tensor("I0\n(I-1\nt(I1\nt"), "size holds the int -1");
  expect_refused(tensor("I0\n(I1\nt(I-1\nt"), "stride holds the int -1");
  expect_refused(tensor("I0\n(I1\nt(t"), "1 sizes and 0 strides");
  expect_refused("ctorch._utils\n_rebuild_tensor_v2\n(NI0\n(t(tI00\nNtR.", "makes a tensor of None");
}

TEST(Pickle, SaysWhatItHoldsInstead) {
  const std::string text = "(S'a'\nI7\nd.";
  const Pickle pickle(bytes_of(text), "file.pt");
  EXPECT_THAT([&] { pickle.root().find("a")->text(); },
              ThrowsMessage<DataError>(HasSubstr("'file.pt' holds the int 7 where a string is expected")));
  EXPECT_THAT([&] { pickle.root().tensor(); }, ThrowsMessage<DataError>(HasSubstr("holds a dict of 1")));
  EXPECT_THROW(pickle.root()[0], DataError);
}

}  // namespace
}  // namespace stoa::ckpt::torch
