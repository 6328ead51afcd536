// The tree of a template.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/value.h"

namespace stoa::chat {

enum class NodeKind : unsigned char {
  // Expressions
  kLiteral,
  kName,
  kList,
  kTuple,
  kDict,  // kDict: key, value, key, value …
  kAttribute,
  kItem,
  kSlice,  // object; object, index; object, [from], [to], [step]
  kCall,
  kFilter,
  kTest,  // callee or subject, then arguments
  kNot,
  kNegative,
  kPositive,
  kAnd,
  kOr,
  kBinary,       // kBinary: text is the operator
  kCompare,      // first operand, then one per name in `names` (operators)
  kConditional,  // condition, then, else or none
  // Statements
  kText,
  kPrint,
  kIf,   // condition, body, condition, body …, [body of else]
  kFor,  // target, iterable, condition or none, body, else or none
  kSet,
  kSetBlock,     // target, value; target, body, then filters
  kMacro,        // defaults of the last parameters, then the body
  kFilterBlock,  // filter (its subject is none), body
  kWith,         // target, value, target, value …, body
  kBody,         // statements
  kGeneration,   // body: what training counts
  kBreak,
  kContinue,
};

struct Node {
  NodeKind kind;
  int line = 1;
  int depth = 1;                                // of the tree below
  std::string text;                             // name, operator, literal text
  Value value;                                  // of a literal
  bool negated = false;                         // `is not`
  std::vector<std::unique_ptr<Node>> children;  // may hold none where said
  std::vector<std::string>
      names;  // kMacro: parameters; kCompare: operators; kCall, kFilter: names of the last arguments
};
using NodePtr = std::unique_ptr<Node>;

// What Jinja calls trim_blocks, lstrip_blocks and keep_trailing_newline. By default as Hugging Face sets them
// for chat templates.
struct WhiteSpace {
  bool trim_blocks = true;             // the newline behind a block is dropped
  bool lstrip_blocks = true;           // white space before a block that begins its line is dropped
  bool keep_trailing_newline = false;  // at the end of the template
};

// The tree of a template's text. TemplateError names the line; the tree is at most kDeepestTree deep.
inline constexpr int kDeepestTree = 150;
inline constexpr std::size_t kLongestTemplate = 1 << 20;
NodePtr parse_template(std::string_view source, const WhiteSpace& space = {});

}  // namespace stoa::chat
