#include "ckpt/export_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace stoa::ckpt {
namespace {

using ::testing::UnorderedElementsAre;

TEST(ExportContent, TemplatesOfChatsBelongToTheTokenizer) {
  const TestFolder base, made;
  fs::create_directory(base / "additional_chat_templates");
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja",
                           "additional_chat_templates/tool_use.jinja"})
    write_text(base / name, "base");
  std::vector<std::string> names;
  for (const SmallFile& file : small_files_of(base.path())) names.push_back(file.name);
  EXPECT_THAT(names, UnorderedElementsAre("tokenizer.json", "chat_template.jinja",
                                          "additional_chat_templates/tool_use.jinja"));
  EXPECT_TRUE(small_files_of(base / "config.json").empty());

  ExportContent content{.config = "{}", .tensors = {}, .write = [](ShardedWriter&) {}};
  export_content(base.path(), content, made / "copied");
  EXPECT_EQ(read_text(made / "copied/additional_chat_templates/tool_use.jinja"), "base");
  content.texts = {{"tokenizer_config.json", "{}"}, {"additional_chat_templates/rag.jinja", "own"}};
  export_content(base.path(), content, made / "other");
  EXPECT_EQ(read_text(made / "other/tokenizer.json"), "base");
  EXPECT_EQ(read_text(made / "other/additional_chat_templates/rag.jinja"), "own");
  EXPECT_FALSE(fs::exists(made / "other/additional_chat_templates/tool_use.jinja"));
  EXPECT_FALSE(fs::exists(made / "other/chat_template.jinja"));
}

}  // namespace
}  // namespace stoa::ckpt
