#include "eval/samples/compare_samples.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "eval/samples/report_samples.h"

namespace stoa::eval {
namespace {

using ::testing::HasSubstr;

SampledRun samples_of(const std::vector<int>& right, const std::string& task = "t") {
  SampledRun out;
  for (std::size_t i = 0; i < right.size(); ++i) {
    SampledDocument document;
    document.id = static_cast<std::int64_t>(i);
    document.hash = "h" + std::to_string(i);
    document.metrics = {{"acc", right[i]}, {"score", 0.5 * right[i] + static_cast<double>(i)}};
    out.tasks[task]["none"][document.id] = document;
  }
  return out;
}

TEST(CompareSamples, McNemarIsTheExactTestOfTwoSides) {
  // Of Python's math.comb.
  EXPECT_DOUBLE_EQ(mcnemar(0, 0), 1);
  EXPECT_DOUBLE_EQ(mcnemar(7, 7), 1);
  EXPECT_DOUBLE_EQ(mcnemar(1, 0), 1);
  EXPECT_NEAR(mcnemar(10, 2), 0.03857421875, 1e-12);
  EXPECT_NEAR(mcnemar(2, 10), 0.03857421875, 1e-12);
  EXPECT_NEAR(mcnemar(30, 12), 0.007915897334896727, 1e-12);
  EXPECT_NEAR(mcnemar(700, 640), 0.10697992524490955, 1e-10);
}

TEST(CompareSamples, DifferencesAreThoseOfTheDocuments) {
  const SampleComparison out =
      compare_samples(samples_of({1, 0, 0, 1, 0, 0, 1, 0}), samples_of({1, 1, 1, 0, 1, 0, 1, 0}));
  ASSERT_EQ(out.metrics.size(), 2U);
  const PairedMetric& acc = out.metrics.front();
  EXPECT_EQ(acc.metric, "acc");
  EXPECT_DOUBLE_EQ(acc.a, 3.0 / 8);
  EXPECT_DOUBLE_EQ(acc.b, 5.0 / 8);
  EXPECT_DOUBLE_EQ(acc.difference, 0.25);
  // Differences 1, 1, 1, -1 and four zeros: squares 4 - 8 / 16, over 7, over 8.
  EXPECT_NEAR(acc.standard_error, std::sqrt((4 - 0.5) / 7 / 8), 1e-12);
  EXPECT_NEAR(acc.high - acc.low, 2 * 1.959964 * acc.standard_error, 1e-12);
  EXPECT_EQ(acc.only_a, 1);
  EXPECT_EQ(acc.only_b, 3);
  EXPECT_DOUBLE_EQ(acc.p, 0.625);
  EXPECT_FALSE(out.metrics.back().right_or_wrong);
  EXPECT_DOUBLE_EQ(out.metrics.back().difference, 0.125);
  ASSERT_EQ(out.changed.size(), 4U);
  EXPECT_EQ(out.changed[2].a.id, 3);
  EXPECT_TRUE(out.changed[2].a_right);
}

TEST(CompareSamples, GroupsHoldTheDocumentsOfTheirTasks) {
  SampledRun a = samples_of({1, 0, 1}, "one"), b = samples_of({1, 1, 1}, "one");
  a.tasks.merge(samples_of({0}, "two").tasks);
  b.tasks.merge(samples_of({0}, "two").tasks);
  a.groups["all"] = {"one", "two", "absent"};
  const SampleComparison out = compare_samples(a, b);
  const auto all = std::find_if(out.metrics.begin(), out.metrics.end(),
                                [](const PairedMetric& m) { return m.group && m.metric == "acc"; });
  ASSERT_NE(all, out.metrics.end());
  EXPECT_EQ(all->documents, 4);
  EXPECT_DOUBLE_EQ(all->a, 0.5);
  EXPECT_DOUBLE_EQ(all->b, 0.75);
}

TEST(CompareSamples, WhatCannotBeComparedIsTold) {
  const SampledRun a = samples_of({1, 0, 1});
  SampledRun other = samples_of({1, 0});
  const SampleComparison fewer = compare_samples(a, other);
  EXPECT_EQ(fewer.metrics.front().documents, 2);
  EXPECT_THAT(fewer.notes.front(), HasSubstr("2 documents in both, 1 only in A, 0 only in B"));
  EXPECT_THROW(compare_samples(a, samples_of({1}, "u")), DataError);
  other.tasks["t"]["none"][1].hash = "another";
  EXPECT_THROW(compare_samples(a, other), DataError);
}

TEST(ReportSamples, CalibrationIsTheMeanDistanceOfConfidenceAndRightAnswers) {
  std::map<std::int64_t, SampledDocument> documents;
  const auto add = [&](double likely, double right) {  // two choices; the better has this probability
    SampledDocument document;
    document.id = static_cast<std::int64_t>(documents.size());
    document.choices = {std::log(likely) - 3, std::log(1 - likely) - 3};
    document.metrics = {{"acc", right}};
    documents[document.id] = document;
  };
  EXPECT_FALSE(calibration_of(documents).has_value());
  add(0.95, 1), add(0.93, 0), add(0.62, 1), add(0.64, 1);
  const auto made = calibration_of(documents);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->documents, 4);
  EXPECT_NEAR(made->confidence, 0.785, 1e-12);
  EXPECT_NEAR(made->right, 0.75, 1e-12);
  // Bins of 0.9 and 0.6: |0.5 - 0.94| / 2 + |1 - 0.63| / 2.
  EXPECT_NEAR(made->error, 0.405, 1e-12);
  EXPECT_EQ(made->bins[9].documents, 2);
  EXPECT_NEAR(made->bins[6].confidence, 0.63, 1e-12);
  documents[4].metrics = {{"acc", 1.0}};  // without choices
  EXPECT_EQ(calibration_of(documents)->documents, 4);
}

}  // namespace
}  // namespace stoa::eval
