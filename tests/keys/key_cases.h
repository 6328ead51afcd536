// Every key of a run's configuration, changed somewhere where it counts, and what must be seen of the change.
#pragma once

#include <string>
#include <vector>

#include "program.h"

namespace stoa::keys {

// What a run shows. `kAny`: whichever of the others.
enum class Sees {
  kNumbers,  // lines of metrics.jsonl: losses, norms, rates, tokens, scales, validations
  kWeights,  // bytes of the weights of the last checkpoint
  kMemory,   // planned bytes of a rank
  kTrace,    // the operations of every rank in their order
  kFiles,    // which files there are
  kText,     // `text` is said on the console or in the report of the changed run, and not of the other
  kRefusal,  // the changed run is refused, and says `text`
  kAny,
};

struct KeyCase {
  const char* key;      // full path
  const char* context;  // of contexts()
  e2e::Arguments change;
  Sees sees = Sees::kNumbers;
  const char* text = "";
};

// What a run of a context reads: prepared by the test where the first context wants it.
enum class Material {
  kText,
  kPieces,
  kSentences,
  kPairs,
  kToldSentences,
  kClasses,
  kAnswers,
  kChats,
  kPreferences,
  kJudged,
  kCompared,
  kKept  // kText, and what was kept of a teacher
};

// A small run that all keys of some kind can be changed in: arguments of `stoa train` beyond those of
// Workplace::train.
struct Context {
  const char* name;
  Material material = Material::kText;
  e2e::Arguments arguments = {};
  bool resumed = false;  // a first run of the context's own arguments stands in the directory
};
std::vector<Context> contexts();

std::vector<KeyCase> key_cases();

// Keys whose change nobody can see in a run, each with the reason.
struct KeyWithoutEffect {
  const char* key;
  const char* why;
};
std::vector<KeyWithoutEffect> keys_without_effect();

// A key of `model` that a kind of model accepts and that changes nothing there although it is said to count
// in that kind; with the reason.
struct KeyOfOtherKind {
  const char* context;
  const char* key;
  const char* why;
};
std::vector<KeyOfOtherKind> keys_of_other_kinds();

}  // namespace stoa::keys
