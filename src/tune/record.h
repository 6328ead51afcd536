// A record of a tuning file: a chat, a prompt with its answer, a pair of answers, or a text. Files of many
// forms hold them (read_record); all become the same two structures.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace stoa::tune {

using Json = nlohmann::ordered_json;

// What objects of a file look like; docs/tuning.md shows each.
enum class RecordForm : std::uint8_t {
  kMessages,     // {"messages": [{"role", "content"}…], "tools"?}, as OpenAI has it
  kShareGpt,     // {"conversations": [{"from", "value"}…], "system"?, "tools"?}
  kAlpaca,       // {"instruction", "input"?, "output"}
  kInputOutput,  // {"input", "output"}, NeMo's
  kCompletion,   // {"prompt", "completion"}: texts or lists of messages; {"question", "answer"}
  kPreference,   // {"prompt"?, "chosen", "rejected"}
  kJudged,       // {"prompt", "completion", "label": true or false}
  kCompared,     // {"query", "positive", "negative"?}: texts whose vectors are compared
  kText,         // {"text"}
};
std::string_view name_of(RecordForm form);  // "OpenAI messages"

struct Place {
  std::string file;
  std::int64_t number = 0;  // line of JSON lines, or element of a JSON array; from 1
  std::string text() const;
};

struct Conversation {
  Json messages = Json::array();  // [{"role", "content", …}…], as chat templates take them
  Json tools;                     // null: none
  std::vector<bool> trained;      // by message: the answer is trained
};

// Text without roles; the answer is trained.
struct Continuation {
  std::string prompt, answer;
};

using Answered = std::variant<Conversation, Continuation>;

struct Record {
  RecordForm form = RecordForm::kText;
  Answered text;                           // of a preference: with the chosen answer
  std::optional<Answered> rejected;        // of a preference
  std::optional<bool> desirable;           // of a judged one
  double margin = 0;                       // of a preference: by how much the chosen answer is better
  std::optional<double> score;             // if asked for
  std::vector<std::string> compared = {};  // a query, its positive, hard negatives; there is no other text
  Place place;
};

struct RecordOptions {
  bool roles = true;   // prompts and answers become turns of a chat; false: text without roles
  bool score = false;  // a text, a chat or a prompt with its answer has a number, "score" or "label"
};

// What {"question", "answer"} is, which data sets of chats have as well as those of vectors.
enum class Question { kAnswered, kCompared };

// The form that an object has. DataError: none; its keys and what is known are named.
RecordForm form_of(const Json& object, const Place& place, Question question = Question::kAnswered);

// DataError names the place and the fault: a key that is missing, a role that is unknown or out of order, an
// empty answer, a pair of equal answers, a margin or score that is not a number.
Record read_record(const Json& object, RecordForm form, const Place& place, const RecordOptions& options);

// "### Instruction: …" of Stanford Alpaca, up to the answer.
std::string alpaca_prompt(std::string_view instruction, std::string_view input);

}  // namespace stoa::tune
