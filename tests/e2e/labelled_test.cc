// Encoders fine-tuned on labelled text and asked, as a user would.
#include <gmock/gmock.h>

#include <cmath>
#include <sstream>

#include "base/file.h"
#include "base/test_paths.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Words that mean something, between words that do not.
class Labelled : public Workplace {
 protected:
  void SetUp() override {
    Workplace::SetUp();
    std::string corpus;
    for (const auto& [name, count] : {std::pair{"train", 200}, std::pair{"dev", 24}}) {
      std::string texts;
      for (int i = 0; i < count; ++i) {
        const std::string text = sentence(i, i % 2 ? "stone" : "bread");
        texts += json{{"text", text}, {"label", i % 2 ? "hard" : "soft"}}.dump() + "\n";
        corpus += text + "\n";
      }
      write_text(path(name + std::string(".jsonl")), texts);
    }
    write_text(path("corpus.txt"), corpus);
    stoa_ok(
        {"tokenizer", "train", "corpus.txt", "--kind", "wordpiece", "--vocab-size", "120", "--output", "wp"});
  }

  // Number i with the word somewhere in it; its length and place say nothing of the parity of i.
  static std::string sentence(int i, const std::string& word) {
    const char* fill[] = {"river", "walks", "light", "under", "seven"};
    i /= 2;
    std::string out;
    for (int w = 0; w < 3 + i % 4; ++w)
      out += std::string(w ? " " : "") + (w == i % 3 ? word : fill[(i + w * w) % 5]);
    return out;
  }

  static Arguments encoder(const std::string& run, const Arguments& more = {}) {
    return Arguments{"train",
                     "bert-110m",
                     "model.tokenizer=wp",
                     "model.vocab_size=null",
                     "model.num_layers=2",
                     "model.hidden_size=32",
                     "model.num_attention_heads=4",
                     "model.encoder_seq_length=16",
                     "model.micro_batch_size=4",
                     "model.global_batch_size=16",
                     "model.optim.lr=3e-3",
                     "model.optim.sched.warmup_steps=0",
                     "model.optim.sched.constant_steps=0",
                     "model.optim.sched.min_lr=1e-4",
                     "trainer.precision=fp32",
                     "trainer.log_every_n_steps=1",
                     "trainer.max_steps=40",
                     "trainer.val_check_interval=20",
                     "--output",
                     run} +
           more;
  }
  static Arguments classifier(const std::string& run, const Arguments& more = {}) {
    return encoder(run, Arguments{"model.task=sequence_classification", "model.labels=[soft, hard]",
                                  "model.data.data_prefix={train: train.jsonl, validation: dev.jsonl}"} +
                            more);
  }
};

TEST_F(Labelled, ClassifiesTexts) {
  const Outcome trained = stoa_ok(classifier("run", {"trainer.max_steps=100"}));
  EXPECT_THAT(trained.err, HasSubstr("accuracy"));
  const auto validations = this->validations("run");
  ASSERT_TRUE(validations.contains(100));
  EXPECT_GE(validations.at(100).at("val_accuracy").get<double>(), 0.9);
  const auto config = json::parse(read_text(path("run") / "checkpoints/step-0000100/model/config.json"));
  EXPECT_EQ(config["architectures"][0], "BertForSequenceClassification");
  EXPECT_EQ(config["id2label"]["1"], "hard");

  write_text(path("ask.txt"), "river stone walks\n{\"text\": \"light bread\", \"label\": \"hard\"}\n");
  const std::string answers = stoa_ok({"predict", "run", "ask.txt"}).out;
  const auto first = json::parse(answers.substr(0, answers.find('\n')));
  const auto second = json::parse(answers.substr(answers.find('\n') + 1));
  EXPECT_EQ(first["label"], "hard");
  EXPECT_EQ(second["label"], "soft");
  EXPECT_NEAR(first["scores"]["hard"].get<double>() + first["scores"]["soft"].get<double>(), 1, 1e-9);
  EXPECT_EQ(first["score"], first["scores"]["hard"]);

  stoa_ok({"checkpoint", "export", "run", "--dtype", "fp32", "--output", "exported"});
  EXPECT_EQ(stoa_ok({"predict", "exported", "ask.txt"}).out, answers);
  stoa_ok({"embed", "run", "ask.txt"});
  EXPECT_THAT(stoa({"generate", "run", "--prompt", "the [MASK]"}).err, HasSubstr("stoa predict"));
}

// On a model that keeps every bit but its head, saved in PEFT's form.
TEST_F(Labelled, VirtualTokensStandBeforeTheTexts) {
  stoa_ok(classifier("base", {"trainer.max_steps=2", "trainer.val_check_interval=0"}));
  write_text(path("ask.txt"), "river stone walks\nlight bread\n");
  const auto answers = [&](const Arguments& model) {
    return stoa_ok(Arguments{"predict"} + model + Arguments{"ask.txt", "--dtype", "fp32"}).out;
  };
  const auto tune = [](const std::string& run, const std::string& scheme, const Arguments& more = {}) {
    Arguments keys{"restore_from_path=base", "model.peft.peft_scheme=" + scheme,
                   "model.peft.p_tuning.virtual_tokens=3", "model.optim.lr=0.02", "trainer.max_steps=40"};
    if (scheme == "ptuning") keys.push_back("model.peft.p_tuning.bottleneck_dim=12");
    return classifier(run, keys + more);
  };
  const auto adapter = [&](const std::string& run) { return path(run + "/checkpoints/latest/adapter"); };
  const auto bytes = [&](const std::string& run) {
    return read_text(adapter(run) / "adapter_model.safetensors");
  };
  for (const auto& [scheme, type] :
       {std::pair<std::string, std::string>{"prompt", "PROMPT_TUNING"}, {"ptuning", "P_TUNING"}}) {
    SCOPED_TRACE(scheme);
    stoa_ok(tune(scheme, scheme));
    const json hashes = json::parse(read_text(path(scheme + "/base_tensors.json")));
    EXPECT_EQ(hashes["before"], hashes["after"]);
    const json config = json::parse(read_text(adapter(scheme) / "adapter_config.json"));
    EXPECT_EQ(config["peft_type"], type);
    EXPECT_EQ(config["task_type"], "SEQ_CLS");
    EXPECT_EQ(config["modules_to_save"], json({"classifier", "score"}));
    EXPECT_THAT(bytes(scheme), HasSubstr("\"base_model.classifier.weight\""));
    EXPECT_THAT(bytes(scheme), ::testing::Not(HasSubstr("pooler")));
    EXPECT_NE(answers({scheme}), answers({"base"}));
    EXPECT_EQ(answers({"base", "--adapter", scheme}), answers({scheme}));
    // Stopped and resumed bit for bit, in a pipeline too.
    stoa_ok(tune(scheme + "-parts", scheme, {"--stop-after", "20"}));
    stoa_ok(tune(scheme + "-parts", scheme));
    EXPECT_EQ(bytes(scheme + "-parts"), bytes(scheme));
    stoa_ok(tune(scheme + "-tensor", scheme,
                 {"--ranks", "2", "model.tensor_model_parallel_size=2", "--stop-after", "20"}));
    stoa_ok(tune(scheme + "-tensor", scheme));
    const Outcome states = stoa({"embed", scheme, "ask.txt"});
    EXPECT_EQ(states.exit_code, 1);
    EXPECT_THAT(states.err, HasSubstr("were trained for a classification"));
  }
  const auto refused = [&](const Arguments& run, const char* text) {
    const Outcome outcome = stoa(run);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(text));
  };
  refused(tune("no", "prefix"), "prefix is not for encoders");
  refused(tune("no", "prompt", {"model.peft.p_tuning.virtual_tokens=10"}),
          "have no room for texts behind 10 virtual tokens");
}

// The same texts, read by a decoder, whose last token is asked.
TEST_F(Labelled, ADecoderClassifiesTexts) {
  stoa_ok({"tokenizer", "train", "corpus.txt", "--vocab-size", "280", "--output", "bytes"});
  const Arguments decoder = {"model.kind=gpt",
                             "model.tokenizer=bytes",
                             "model.normalization=rmsnorm",
                             "model.position_embedding_type=rope",
                             "model.activation=swiglu",
                             "model.bias=none"};
  stoa_ok(classifier("decoder", decoder + Arguments{"trainer.max_steps=100"}));
  EXPECT_GE(validations("decoder").at(100).at("val_accuracy").get<double>(), 0.9);
  const auto config = json::parse(read_text(path("decoder") / "checkpoints/step-0000100/model/config.json"));
  EXPECT_EQ(config["architectures"][0], "LlamaForSequenceClassification");
  write_text(path("ask.txt"), "river stone walks\n{\"text\": \"light bread\"}\n");
  const std::string answers = stoa_ok({"predict", "decoder", "ask.txt"}).out;
  EXPECT_EQ(json::parse(answers.substr(0, answers.find('\n')))["label"], "hard");
  EXPECT_EQ(json::parse(answers.substr(answers.find('\n') + 1))["label"], "soft");
  for (const Arguments& use :
       {Arguments{"generate", "decoder", "--prompt", "the"}, Arguments{"score", "decoder", "ask.txt"},
        Arguments{"embed", "decoder", "ask.txt"}}) {
    const Outcome refused = stoa(use);
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_THAT(refused.err, HasSubstr("stoa predict"));
  }
  // A language model brings all but its head.
  stoa_ok({"data", "prepare", "corpus.txt", "--tokenizer", "bytes", "--output", "text"});
  stoa_ok(encoder("words", decoder + Arguments{"model.data=text", "trainer.max_steps=2",
                                               "trainer.val_check_interval=0"}));
  EXPECT_THAT(stoa_ok(classifier("tuned-decoder",
                                 decoder + Arguments{"restore_from_path=words", "trainer.max_steps=2"}))
                  .err,
              HasSubstr("initialised, not in the files: head.classes.weight"));
}

TEST_F(Labelled, TagsWords) {
  for (const auto& [name, count] : {std::pair{"train", 160}, std::pair{"dev", 16}}) {
    std::string lines;
    for (int i = 0; i < count; ++i) {
      // A stone is a thing, bread and what follows it one thing of another kind.
      json words = json::array(), tags = json::array();
      std::istringstream text(sentence(i, i % 2 ? "stone" : "bread"));
      bool inside = false;
      for (std::string word; text >> word;) {
        words.push_back(word);
        tags.push_back(word == "stone" ? "B-ROCK" : word == "bread" ? "B-FOOD" : inside ? "I-FOOD" : "O");
        inside = word == "bread";
      }
      lines += json{{"tokens", words}, {"ner_tags", tags}}.dump() + "\n";
    }
    write_text(path(name + std::string(".jsonl")), lines);
  }
  const Arguments task = {
      "model.task=token_classification", "model.labels=[O, B-ROCK, I-ROCK, B-FOOD, I-FOOD]",
      "model.data.data_prefix={train: train.jsonl, validation: dev.jsonl}", "trainer.max_steps=160"};
  stoa_ok(encoder("run", task));
  const auto validation = validations("run").at(160);
  EXPECT_GE(validation.at("val_accuracy").get<double>(), 0.95);
  EXPECT_GE(validation.at("val_f1").get<double>(), 0.9);
  const auto config = json::parse(read_text(path("run") / "checkpoints/step-0000160/model/config.json"));
  EXPECT_EQ(config["architectures"][0], "BertForTokenClassification");

  write_text(path("ask.txt"), "bread walks seven\n");
  const auto answer = json_of({"predict", "run", "ask.txt"});
  EXPECT_EQ(answer["tags"], json({"B-FOOD", "I-FOOD", "O"}));
  EXPECT_EQ(answer["spans"][0], json({{"type", "FOOD"}, {"begin", 0}, {"end", 2}, {"text", "bread walks"}}));

  write_text(path("bad.jsonl"), R"({"words": ["a", "b"], "tags": ["O"]})"
                                "\n");
  EXPECT_THAT(stoa(encoder("bad", task + Arguments{"model.data.data_prefix={train: bad.jsonl}"})).err,
              HasSubstr("bad.jsonl line 1: 2 words, but 1 tags"));

  // A language model with a low-rank adapter and a new head.
  const Arguments decoder{"model.kind=gpt", "model.tokenizer=bytes", "model.hidden_dropout=0"};
  stoa_ok({"tokenizer", "train", "corpus.txt", "--vocab-size", "280", "--output", "bytes"});
  stoa_ok({"data", "prepare", "corpus.txt", "--tokenizer", "bytes", "--output", "text"});
  stoa_ok(encoder("words", decoder + Arguments{"model.data=text", "trainer.max_steps=2",
                                               "trainer.val_check_interval=0"}));
  for (const auto& [output, more] : std::vector<std::pair<std::string, Arguments>>{
           {"whole", {}}, {"low-rank", {"model.peft.peft_scheme=lora"}}}) {
    stoa_ok(
        encoder(output, decoder + task + more + Arguments{"restore_from_path=words", "trainer.max_steps=2"}));
    EXPECT_TRUE(json_of({"predict", output, "ask.txt"}).contains("tags")) << output;
  }
}

TEST_F(Labelled, AnswersQuestions) {
  for (const auto& [name, count] : {std::pair{"train", 160}, std::pair{"dev", 16}}) {
    std::string lines;
    for (int i = 0; i < count; ++i) {
      const std::string word = i % 2 ? "stone" : "bread", context = sentence(i, word);
      lines += json{{"question", "what is under"},
                    {"context", context},
                    {"answers", json{{"text", json::array({word})},
                                     {"answer_start", json::array({context.find(word)})}}}}
                   .dump() +
               "\n";
    }
    write_text(path(name + std::string(".jsonl")), lines);
  }
  const Arguments task = {"model.task=question_answering", "model.data.doc_stride=4",
                          "model.data.data_prefix={train: train.jsonl, validation: dev.jsonl}",
                          "trainer.max_steps=160"};
  stoa_ok(encoder("run", task));
  const auto validation = validations("run").at(160);
  EXPECT_GE(validation.at("val_exact").get<double>(), 0.9);
  EXPECT_GE(validation.at("val_f1").get<double>(), validation.at("val_exact").get<double>());
  const auto config = json::parse(read_text(path("run") / "checkpoints/step-0000160/model/config.json"));
  EXPECT_EQ(config["architectures"][0], "BertForQuestionAnswering");

  // A context in one window, and one in several.
  const std::string context = sentence(1, "stone");
  std::string words;
  for (int i = 0; i < 5; ++i) words += context + " ";
  write_text(path("ask.jsonl"),
             json{{"id", "a"}, {"question", "what is under"}, {"context", context}}.dump() + "\n" +
                 json{{"id", "b"}, {"question", "what is under"}, {"context", words}}.dump() + "\n");
  const std::string answers = stoa_ok({"predict", "run", "ask.jsonl", "--doc-stride", "4"}).out;
  const auto first = json::parse(answers.substr(0, answers.find('\n')));
  const auto second = json::parse(answers.substr(answers.find('\n') + 1));
  EXPECT_EQ(first["id"], "a");
  EXPECT_EQ(first["answer"], "stone");
  EXPECT_EQ(first["answer_start"], context.find("stone"));
  EXPECT_EQ(second["id"], "b");
  const auto answer = second["answer"].get<std::string>();
  EXPECT_FALSE(answer.empty());
  EXPECT_EQ(words.substr(second["answer_start"].get<std::size_t>(), answer.size()), answer);

  write_text(path("bad.jsonl"),
             R"({"question": "q", "context": "abc", "answers": {"text": ["b"], "answer_start": [2]}})"
             "\n");
  EXPECT_THAT(stoa(encoder("bad", task + Arguments{"model.data.data_prefix={train: bad.jsonl}"})).err,
              HasSubstr("bad.jsonl line 1: the context does not have the answer 'b' at character 2"));
}

TEST_F(Labelled, GoesOnWhereItStoppedInAnotherLayout) {
  stoa_ok(classifier("one"));
  stoa_ok(classifier("two", {"--stop-after", "20"}));
  stoa_ok(classifier("two", {"--ranks", "2", "model.pipeline_model_parallel_size=2"}));
  expect_same("one", "two");
  stoa_ok(classifier("three", {"--ranks", "2"}));
  EXPECT_EQ(validations("three").at(40)["val_accuracy"], validations("one").at(40)["val_accuracy"]);
}

// From an encoder that learned to predict words: all but the head's classes are its weights.
TEST_F(Labelled, StartsFromAPretrainedEncoder) {
  write_text(path("sentences.txt"),
             "The river walks under. Seven stones light.\n\nBread walks. The light is hard.\n\n");
  std::string text;
  for (int i = 0; i < 40; ++i) text += read_text(path("sentences.txt"));
  write_text(path("sentences.txt"), text);
  stoa_ok({"data", "prepare", "sentences.txt", "--tokenizer", "wp", "--text-split", "paragraph",
           "--split-sentences", "--output", "pairs"});
  stoa_ok(encoder("pretrained", {"model.data=pairs", "model.bert.binary_head=true", "trainer.max_steps=4",
                                 "trainer.val_check_interval=0"}));
  const Outcome tuned = stoa_ok(classifier("tuned", {"restore_from_path=pretrained", "trainer.max_steps=2"}));
  EXPECT_THAT(tuned.err, HasSubstr("initialised, not in the files: head.classes.bias, head.classes.weight"));
  // A model of the same task brings its head.
  const Outcome again = stoa_ok(classifier("again", {"restore_from_path=tuned", "trainer.max_steps=2"}));
  EXPECT_THAT(again.err, ::testing::Not(HasSubstr("initialised, not")));

  // An adapter holds a head that the model lacks, or there is nothing to train.
  const auto adapted = [&](const std::string& output, const Arguments& more) {
    return stoa(classifier(output, Arguments{"restore_from_path=pretrained", "trainer.max_steps=2"} + more));
  };
  const Outcome without = adapted("without", {"model.peft.peft_scheme=lora"});
  EXPECT_EQ(without.exit_code, 1);
  const Outcome turned =
      stoa(classifier("turned", {"restore_from_path=tuned", "trainer.max_steps=2",
                                 "model.peft.peft_scheme=lora", "model.labels=[hard, soft]"}));
  EXPECT_EQ(turned.exit_code, 1);
  EXPECT_THAT(turned.err, HasSubstr("an adapter keeps the labels of its model"));
  EXPECT_THAT(without.err,
              HasSubstr("has no head.classes.bias, which the adapter would neither train nor hold"));
  write_text(path("ask.txt"), "The river walks under.\n");
  for (const auto& [output, more] : std::vector<std::pair<std::string, Arguments>>{
           {"low-rank", {"model.peft.peft_scheme=lora", "model.peft.modules_to_save=[classifier]"}},
           {"virtual", {"model.peft.peft_scheme=prompt", "model.peft.p_tuning.virtual_tokens=3"}}}) {
    const Outcome trained = adapted(output, more);
    ASSERT_EQ(trained.exit_code, 0) << trained.text();
    const std::string answers = stoa_ok({"predict", output, "ask.txt"}).out;
    EXPECT_THAT(answers, HasSubstr("label"));
    EXPECT_EQ(stoa_ok({"predict", "pretrained", "--adapter", output, "ask.txt"}).out, answers);
  }
}

TEST_F(Labelled, BadLabelsAreToldByLine) {
  const auto refused = [&](const std::string& line, const Arguments& more = {}) {
    write_text(path("bad.jsonl"), "{\"text\": \"river\", \"label\": \"soft\"}\n" + line + "\n");
    const Outcome out =
        stoa(classifier("bad", Arguments{"model.data.data_prefix={train: bad.jsonl}"} + more));
    EXPECT_EQ(out.exit_code, 1);
    return out.err;
  };
  EXPECT_THAT(refused(R"({"text": "x", "label": "sofd"})"),
              HasSubstr("bad.jsonl line 2: label 'sofd' is not among model.labels (soft, hard) (did you "
                        "mean 'soft'?)"));
  EXPECT_THAT(refused(R"({"text": "x", "label": 2})"),
              HasSubstr("label 2, but model.labels names 2 classes"));
  EXPECT_THAT(refused(R"({"text": "x"})"), HasSubstr("bad.jsonl line 2: no \"label\""));
  EXPECT_THAT(refused(R"({"txt": "x", "label": 1})"), HasSubstr("no \"text\"; the object has: label, txt"));
  EXPECT_THAT(refused("river"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refused("", {"model.labels=[soft, firm]"}),
              HasSubstr("label 'hard' is not among model.labels (soft, firm)"));
  EXPECT_THAT(refused("", {"model.labels=[a, a]"}), HasSubstr("'a' is empty or appears twice"));
  EXPECT_THAT(refused("", {"model.task=sequence_clasification"}), HasSubstr("sequence_classification"));
  EXPECT_THAT(stoa({"plan", "memory", "gpt2-124m", "model.task=question_answering"}).err,
              HasSubstr("question_answering is for kind bert only"));
  EXPECT_THAT(stoa({"predict", "wp"}).err, HasSubstr("config.json"));
}

// Texts with numbers: a head of one label learns them, as torch does.
TEST_F(Labelled, NumbersAreLearntAsByTorch) {
  const fs::path fixture = test::source_dir() / "tests/fixtures/regression";
  const json expected = json::parse(read_text(fixture / "losses.json"));
  const std::string texts = (fixture / "scored.jsonl").string();
  const auto numbers = [&](const std::string& model) {
    const Outcome outcome = stoa_ok({"predict", model, texts, "--dtype", "fp32"});
    std::istringstream lines(outcome.out);
    std::vector<double> out;
    for (std::string line; std::getline(lines, line);)
      out.push_back(json::parse(line)["value"].get<double>());
    EXPECT_THAT(outcome.err, HasSubstr("8 labels: Pearson "));
    return out;
  };
  const std::vector<double> before = numbers(fixture.string());
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_NEAR(before[i], expected["scores"][i].get<double>(), 1e-5);
  const auto regression = [&](const std::string& run, const Arguments& more) {
    return Arguments{"train",
                     fixture.string(),
                     "model.data.data_prefix={train: " + texts + ", validation: " + texts + "}",
                     "model.encoder_seq_length=32",
                     "model.micro_batch_size=4",
                     "model.global_batch_size=8",
                     "model.optim.name=adamw",
                     "model.optim.lr=" + expected["rate"].dump(),
                     "model.optim.betas=[0.9,0.95]",
                     "model.optim.weight_decay=0",
                     "model.optim.sched.name=Constant",
                     "trainer.gradient_clip_val=1",
                     "trainer.precision=fp32",
                     "trainer.log_every_n_steps=1",
                     "trainer.val_check_interval=50",
                     "trainer.max_steps=" + expected["steps"].dump(),
                     "--output",
                     run} +
           more;
  };
  stoa_ok(regression("run", {}));
  const auto found = metrics("run");
  ASSERT_EQ(found.size(), expected["losses"].size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double theirs = expected["losses"][i].get<double>();
    EXPECT_NEAR(found.at(static_cast<std::int64_t>(i) + 1)["loss"].get<double>(), theirs,
                1e-3 * std::max(1.0, theirs))
        << "step " << i + 1;
  }
  const json last = validations("run").at(50);
  EXPECT_GT(last["val_pearson"].get<double>(), 0.9) << last;
  EXPECT_LT(last["val_mae"].get<double>(), 0.5) << last;
  EXPECT_FALSE(last.contains("val_accuracy"));
  const std::vector<double> after = numbers("run");
  double error = 0;
  std::istringstream lines(read_text(texts));
  std::string line;
  for (const double value : after) {
    std::getline(lines, line);
    error += std::abs(value - json::parse(line)["label"].get<double>());
  }
  EXPECT_NEAR(error / 8, last["val_mae"].get<double>(), 1e-3);
  // Over ranks.
  stoa_ok(regression("split", {"--ranks", "4", "model.tensor_model_parallel_size=2",
                               "model.pipeline_model_parallel_size=2"}));
  const auto split = metrics("split");
  for (const auto& [step, own] : found)
    EXPECT_NEAR(split.at(step)["loss"].get<double>(), own["loss"].get<double>(), 1e-4) << step;
  write_text(path("named.jsonl"), "{\"text\": \"a stone\", \"label\": \"hard\"}\n");
  const Outcome refused =
      stoa(regression("refused", {"model.data.data_prefix={train: named.jsonl, validation: named.jsonl}"}));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("named.jsonl line 1: label 'hard', expected a number"));
}

}  // namespace
}  // namespace stoa::e2e
