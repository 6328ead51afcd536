// Two evaluations of the same documents, document by document: how much better is one, and is that chance?
#pragma once

#include "eval/samples/sample_files.h"

namespace stoa::eval {

// A metric over the documents that both evaluations answered.
struct PairedMetric {
  std::string task, filter, metric;
  bool group = false;  // all documents of the group's tasks
  std::int64_t documents = 0;
  double a = 0, b = 0;          // means
  double difference = 0;        // b - a
  double standard_error = 0;    // of the difference: sample deviation of the documents' differences / sqrt(n)
  double low = 0, high = 0;     // of its 95 % interval: 1.96 standard errors on both sides
  bool right_or_wrong = false;  // every value is 0 or 1: what follows is known
  std::int64_t only_a = 0, only_b = 0;  // documents that only this one has right
  double p = 1;                         // McNemar's test (mcnemar)
};

// A document that one has right and the other wrong.
struct ChangedDocument {
  std::string task, filter, metric;
  bool a_right = false;
  SampledDocument a, b;
};

struct SampleComparison {
  std::vector<PairedMetric> metrics;     // tasks, then groups
  std::vector<ChangedDocument> changed;  // by the task's first metric that is right or wrong
  std::vector<std::string> notes;        // what was not compared
};

// Probability that of only_a + only_b tosses of a fair coin the rarer side comes up as rarely as this: the
// exact two-sided test of McNemar (1947) on the documents of which one evaluation alone is right.
double mcnemar(std::int64_t only_a, std::int64_t only_b);

// DataError: no task in common, or a document that is not the same in both.
SampleComparison compare_samples(const SampledRun& a, const SampledRun& b);

std::string to_text(const SampleComparison& comparison);
std::string to_json(const SampleComparison& comparison);

}  // namespace stoa::eval
