#include "tune/config.h"

#include "base/error.h"

namespace stoa::tune {

void declare(config::Section<ChatDataConfig>& s) {
  using C = ChatDataConfig;
  s.field("chat", &C::chat)
      .help(
          "Train on files of chats, prompts with answers, or texts (JSON lines or a JSON array; .gz, .zst), "
          "in whatever form they are: only answers are trained. data_prefix names the files, or "
          "train_ds.file_names does.");
  s.field("chat_template", &C::chat_template)
      .derived("the tokenizer's own")
      .help(
          "How chats become text: chatml, llama3, gemma, phi3, mistral, zephyr or alpaca; a Jinja file; none "
          "for texts without roles. Special tokens that the tokenizer lacks are added, each with the mean of "
          "the other tokens' rows as its own.");
  s.field("packed_sequence", &C::packed_sequence)
      .help(
          "Samples share rows, as many as fit, without seeing each other; false: one sample per row, "
          "padded.");
  s.field("skip_bad_records", &C::skip_bad_records)
      .help(
          "Leave out records that cannot be used (no JSON, roles out of order, an empty answer …), each "
          "reported with its file and number; false: they are an error.");
  const auto files = [](config::Section<FileNames>& f) {
    f.field("file_names", &FileNames::file_names).help("Files of chats, instead of data_prefix.");
  };
  s.section("train_ds", &C::train_ds, files);
  s.section("validation_ds", &C::validation_ds, files);
  s.validate({"train_ds.file_names", "validation_ds.file_names"}, [](const C& c) {
    require<ConfigError>(c.validation_ds.file_names.empty() || !c.train_ds.file_names.empty(),
                         "validation_ds names files but train_ds names none");
  });
}

}  // namespace stoa::tune
