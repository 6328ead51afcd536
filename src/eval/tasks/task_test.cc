#include "eval/tasks/task.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "eval/tasks/task_index.h"

namespace stoa::eval {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

DocField field_of(const char* written) {
  return {Json(written), {"question", "answer"}, "a.yaml", "doc_to_target"};
}
const Json kQuestion{{"question", "Is it so?"}, {"answer", true}};

// BoolQ's answers, for example: Python's True is the choice 1.
TEST(TaskFields, TruthsAreNumbersOfChoices) {
  EXPECT_EQ(field_of("answer").target(kQuestion, true), 1);
  EXPECT_EQ(field_of("answer").target({{"question", ""}, {"answer", false}}, true), 0);
  EXPECT_EQ(field_of("answer").target(kQuestion, false), true);
}

TEST(TaskFields, AConditionWithoutElseIsEmpty) {
  EXPECT_EQ(field_of("{{question}}{{', yes' if answer}}{{', no' if not answer}}").rendered(kQuestion),
            "Is it so?, yes");
}

TEST(TaskFields, WhatADocumentLacksIsNamedBesideWhatItHas) {
  EXPECT_THAT([] { field_of("{{text}}").rendered(kQuestion); },
              ThrowsMessage<DataError>(
                  HasSubstr("a value is not defined: 'text' (the document has question, answer)")));
}

TEST(TaskFields, AListOfTasksIsOfAGroup) {
  const TestFolder folder;
  write_text(folder / "a.yaml", "task: [piqa]\noutput_type: multiple_choice\n");
  EXPECT_THAT([&] { TaskIndex({}).select({(folder / "a.yaml").string()}); },
              ThrowsMessage<ConfigError>(HasSubstr("a list of tasks is of a 'group'")));
}

}  // namespace
}  // namespace stoa::eval
