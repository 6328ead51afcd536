// Every generator against vectors of an independent generator and simulator: the text of all lists (as a
// hash), makespan and span at two sets of durations, and the peak of activations in chunks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/test_paths.h"
#include "schedule/generators.h"
#include "schedule/validate.h"

namespace stoa::schedule {
namespace {

// Letters a, b, c for chunks of a rank, X for a whole backward; overlapped pairs in parentheses if asked for.
std::string reference_text(const Schedule& s, bool pairs = false) {
  std::string out;
  const char* kind = "FXBW";
  for (int r = 0; r < static_cast<int>(s.ranks.size()); ++r) {
    if (r) out += "\n";
    bool second = false;
    for (std::size_t i = 0; i < s.ranks[r].size(); ++i) {
      const Action& a = s.ranks[r][i];
      if (i) out += second && pairs ? "|" : " ";
      if (a.overlaps_next && pairs) out += "(";
      out += kind[static_cast<int>(a.kind)];
      if (s.placement.chunks_on(r) > 1) out += static_cast<char>('a' + s.placement.local_index(a.chunk));
      out += std::to_string(a.microbatch);
      if (second && pairs) out += ")";
      second = a.overlaps_next;
    }
  }
  return out;
}

std::uint64_t fnv(const std::string& text) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

struct Vector {
  const char* name;
  int stages, chunks, microbatches, group;
  std::uint64_t hash;
  double makespan, span;
  int peak;
  double makespan_uneven, span_uneven;  // durations 10, 12, 8, communication 1
};

const Vector kVectors[] = {
    {"1f1b", 2, 1, 4, 0, 0x2683fa57f1c0fd4f, 15, 15, 2, 154, 154},
    {"1f1b", 4, 1, 8, 0, 0x366feb10ca5a1ebd, 33, 33, 4, 346, 346},
    {"interleaved", 2, 2, 4, 0, 0xe3f693a8fe5d4939, 27, 27, 5, 276, 276},
    {"interleaved", 4, 2, 8, 0, 0x851cbfaa60d0ce85, 57, 57, 11, 584, 584},
    {"zb-h1", 2, 1, 4, 0, 0x967dae4dcad1150b, 13, 13, 2, 138, 138},
    {"zb-h1", 4, 1, 8, 0, 0xf7b54d09e8c2bba9, 27, 27, 4, 294, 294},
    {"zb-h2", 4, 1, 8, 0, 0x2710c591dfed28e1, 27, 24, 7, 273, 264},
    {"interleaved-zb", 2, 2, 4, 0, 0x74af775b2bfa2b55, 25, 25, 4, 260, 260},
    {"zb-v", 2, 2, 4, 0, 0x6f8ec50a1fda27c5, 25, 24, 4, 255, 252},
    {"zb-v", 4, 2, 8, 0, 0x981810d5a08707b5, 51, 48, 8, 529, 520},
    {"dualpipev", 2, 2, 4, 0, 0x822bcb40b2df77c4, 25, 25, 5, 258, 258},
    {"dualpipev", 4, 2, 8, 0, 0x2b8bdd4daa7a836b, 51, 51, 9, 536, 536},
    {"v-half", 4, 2, 8, 0, 0xf6b82b64dba0ee6d, 60, 60, 6, 638, 638},
    {"zb-h2", 2, 1, 4, 0, 0x5c0e928aab499a87, 13, 12, 3, 131, 128},
    {"interleaved-zb", 4, 2, 8, 0, 0x693171ab85f700c9, 51, 51, 8, 538, 538},
    {"v-min", 4, 2, 8, 0, 0xb6cd1080159f2c15, 59, 59, 4, 728, 728},
    {"1f1b", 8, 1, 32, 0, 0x678393b9dd9d994d, 117, 117, 8, 1238, 1238},
    {"1f1b", 4, 1, 2, 0, 0x7cb9d0ed655608d7, 15, 15, 2, 156, 156},
    {"bfs", 4, 2, 8, 0, 0x65ee91472202d9ed, 57, 57, 16, 576, 576},
    {"interleaved", 8, 4, 32, 0, 0xabddc34deb1c0155, 405, 405, 39, 4112, 4112},
    {"interleaved", 4, 3, 12, 0, 0x817d15876268af2d, 117, 117, 15, 1192, 1192},
    {"interleaved", 4, 2, 10, 5, 0xea5a4a9a2abb1669, 69, 69, 12, 696, 696},
    {"zb-h1", 8, 1, 32, 0, 0x511e80892dc9967d, 103, 103, 8, 1086, 1086},
    {"zb-h2", 8, 1, 32, 0, 0xed43b2e056022433, 103, 96, 15, 1037, 1016},
    {"interleaved-zb", 8, 2, 32, 0, 0x4bf03d0431fec6e1, 199, 199, 16, 2054, 2054},
    {"zb-v", 8, 2, 32, 0, 0x4e6512df7a2c9c61, 199, 192, 16, 2037, 2016},
    {"zb-v", 4, 2, 3, 0, 0xfd1fc9122099bef9, 26, 26, 6, 284, 284},
    {"dualpipe", 4, 2, 8, 0, 0x546b81a57e770f42, 25, 25, 5, 261, 261},
    {"dualpipe", 8, 2, 20, 0, 0x403ec14085406619, 63, 63, 9, 659, 659},
    {"dualpipev", 8, 2, 32, 0, 0xc10fa1c24afdcdab, 199, 199, 17, 2064, 2064},
    {"v-half", 2, 2, 4, 0, 0x1f2e21a0951f6585, 29, 29, 4, 304, 304},
    {"v-half", 8, 2, 32, 0, 0x77821a95eb18af3d, 218, 218, 10, 2266, 2266},
    {"v-min", 2, 2, 4, 0, 0xc44401bb69fedf31, 27, 27, 4, 304, 304},
    {"v-min", 8, 2, 32, 0, 0x27db8cf74f20b5f7, 219, 219, 8, 2774, 2774},
};

Durations uneven() {
  Durations d;
  d.forward = 10, d.backward_input = 12, d.backward_weight = 8, d.communication = 1;
  return d;
}

TEST(ScheduleVectors, ListsTimesAndMemoryAreThoseOfTheReference) {
  for (const Vector& v : kVectors) {
    SCOPED_TRACE(std::string(v.name) + " P=" + std::to_string(v.stages) +
                 " M=" + std::to_string(v.microbatches));
    const Schedule s = generate({v.name, v.stages, v.chunks, v.microbatches, v.group});
    EXPECT_EQ(fnv(reference_text(s)), v.hash) << reference_text(s);
    const Timeline unit = simulate(s), other = simulate(s, uneven());
    EXPECT_DOUBLE_EQ(unit.makespan, v.makespan);
    EXPECT_DOUBLE_EQ(unit.span, v.span);
    EXPECT_DOUBLE_EQ(unit.busy, 3.0 * s.microbatches * v.chunks);
    EXPECT_DOUBLE_EQ(other.makespan, v.makespan_uneven);
    EXPECT_DOUBLE_EQ(other.span, v.span_uneven);
    int peak = 0;
    for (int r = 0; r < v.stages; ++r) peak = std::max(peak, activations_in_flight(s, r));
    EXPECT_EQ(peak, v.peak);
    validate(s);
  }
}

TEST(ScheduleVectors, OverlappedPairs) {
  const std::map<int, std::tuple<std::uint64_t, double, double>> expected{{2, {0x6e594f9c916f293c, 26, 268}},
                                                                          {4, {0xc8e93442cbdb9b72, 54, 570}}};
  for (const auto& [stages, e] : expected) {
    const Schedule s = dual_pipe_v(stages, 2 * stages);
    EXPECT_EQ(fnv(reference_text(s, true)), std::get<0>(e)) << reference_text(s, true);
    Durations unit, other = uneven();
    unit.pairs_as_one = other.pairs_as_one = true;
    EXPECT_DOUBLE_EQ(simulate(s, unit).makespan, std::get<1>(e));
    EXPECT_DOUBLE_EQ(simulate(s, other).makespan, std::get<2>(e));
  }
}

std::string starts(const Schedule& s, int rank) {
  const Timeline timeline = simulate(s, uneven());
  std::string out;
  for (const auto& t : timeline.ranks[rank]) {
    Schedule one = s;
    for (auto& list : one.ranks) list.clear();
    one.ranks[rank] = {t.action};
    std::string text = reference_text(one);
    std::erase(text, '\n');
    out += (out.empty() ? "" : " ") + text + "@" + std::to_string(static_cast<int>(t.start));
  }
  return out;
}

TEST(ScheduleVectors, StartTimes) {
  const Schedule s = one_forward_one_backward(2, 4);
  EXPECT_EQ(starts(s, 0), "F0@0 F1@10 X0@42 F2@62 X1@72 F3@92 X2@104 X3@134");
  EXPECT_EQ(starts(s, 1), "F0@11 X0@21 F1@41 X1@51 F2@73 X2@83 F3@103 X3@113");
  const Schedule v = zero_bubble_v(2, 4);
  EXPECT_EQ(starts(v, 0),
            "Fa0@0 Fa1@10 Fa2@20 Fb0@32 Bb0@42 Wb0@54 Fb1@62 Bb1@72 Wb1@84 Fa3@92 Ba0@102 Wa0@114 Fb2@122 "
            "Bb2@132 Wb2@144 "
            "Ba1@158 Wa1@170 Fb3@178 Bb3@188 Wb3@200 Ba2@208 Wa2@220 Ba3@232 Wa3@244");
  EXPECT_EQ(starts(v, 1),
            "Fa0@11 Fb0@21 Fa1@31 Fb1@41 Bb0@55 Wb0@67 Fa2@75 Ba0@85 Wa0@97 Fb2@105 Bb1@115 Wb1@127 Fa3@135 "
            "Ba1@145 Wa1@157 "
            "Fb3@165 Bb2@175 Wb2@187 Ba2@195 Bb3@207 Ba3@219 Wa2@231 Wb3@239 Wa3@247");
}

TEST(ScheduleVectors, PublishedBubbleRates) {
  const char* shared = std::getenv("STOA_SHARED");
  const auto path =
      std::filesystem::path(shared ? std::filesystem::path(shared) : test::source_dir() / "../shared") /
      "published/zero_bubble_bubble_rates.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  int rows = 0;
  while (std::getline(file, line)) {
    std::vector<std::string> cell(1);
    std::istringstream in(line);
    for (std::string word; std::getline(in, word, ',') && cell.size() <= 16;) cell.push_back(word);
    ASSERT_GE(cell.size(), 15u);
    const auto number = [&](int i) { return std::atof(cell[i + 1].c_str()); };
    Durations d;
    d.forward = number(10), d.backward_input = number(11), d.backward_weight = number(12),
    d.communication = number(13);
    const int p = static_cast<int>(number(2)), m = static_cast<int>(number(3));
    // Four printed decimals, of durations that were themselves printed with three.
    EXPECT_NEAR(simulate(one_forward_one_backward(p, m), d).span_bubble(), number(4), 0.5001e-4) << line;
    EXPECT_NEAR(simulate(zero_bubble_h1(p, m), d).span_bubble(), number(6), 0.5001e-4) << line;
    EXPECT_NEAR(simulate(zero_bubble_h2(p, m), d).span_bubble(), number(7), 0.5001e-4) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 12);
}

}  // namespace
}  // namespace stoa::schedule
