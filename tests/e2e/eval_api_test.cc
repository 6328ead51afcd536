// A model behind a server is evaluated as the one in files is.
#include <gmock/gmock.h>

#include "base/file.h"
#include "base/test_paths.h"
#include "served.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

class EvalApi : public Served {
 protected:
  void SetUp() override {
    Served::SetUp();
    fs::create_directories(path("tasks"));
    const std::string data =
        "dataset_path: json\ndataset_kwargs: {data_files: {test: docs.jsonl}}\ntest_split: test\n";
    write_text(path("tasks/pick.yaml"),
               "task: pick\n" + data +
                   "output_type: multiple_choice\ndoc_to_text: \"{{q}}\"\n"
                   "doc_to_choice: c\ndoc_to_target: g\nmetric_list: [{metric: acc}]\n");
    write_text(path("tasks/read.yaml"),
               "task: read\n" + data +
                   "output_type: loglikelihood_rolling\ndoc_to_text: \"\"\ndoc_to_target: \"{{q}}\"\n"
                   "metric_list: [{metric: byte_perplexity}]\n");
    write_text(path("tasks/tell.yaml"), "task: tell\n" + data +
                                            "doc_to_text: \"{{q}}\"\ndoc_to_target: \"{{c[0]}}\"\n"
                                            "generation_kwargs: {until: [\"\\n\"], max_gen_toks: 8}\n"
                                            "metric_list: [{metric: exact_match}]\n");
    std::string docs;
    for (int i = 0; i < 6; ++i)
      docs += nlohmann::json{{"q", pseudo_prose(static_cast<std::uint64_t>(i), 9)},
                             {"c", {"the stone", "a door " + std::to_string(i)}},
                             {"g", i % 2}}
                  .dump() +
              "\n";
    write_text(path("docs.jsonl"), docs);
  }

  static Arguments evaluate(const std::string& tasks, const Arguments& more) {
    return Arguments{"eval", "run", "chat", "--tasks", tasks, "--include_path", "tasks"} + more;
  }
  Arguments api(const Arguments& more = {}) const {
    return Arguments{"--api", "http://127.0.0.1:" + std::to_string(port()) + "/v1"} + more;
  }
  // The answers of a task's documents in a folder of results, in order.
  std::vector<nlohmann::json> answers(const std::string& output, const std::string& task) const {
    std::vector<nlohmann::json> out;
    for (const auto& entry : fs::recursive_directory_iterator(path(output))) {
      if (!entry.path().filename().string().starts_with("samples_" + task + "_")) continue;
      const std::string text = read_text(entry.path());
      for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
        out.push_back(nlohmann::json::parse(text.substr(at, text.find('\n', at) - at))["resps"]);
    }
    return out;
  }
  void expect_equal(const std::string& a, const std::string& b, const std::string& task) const {
    const auto one = answers(a, task), two = answers(b, task);
    ASSERT_EQ(one.size(), 6U) << task;
    ASSERT_EQ(two.size(), 6U) << task;
    for (std::size_t d = 0; d < one.size(); ++d) EXPECT_EQ(one[d], two[d]) << task << " " << d;
  }
};

// To every digit of the log-likelihoods.
TEST_F(EvalApi, AnswersEqualThoseOfTheModelInFiles) {
  serve();
  const Arguments kept{"--log_samples", "--output_path"};
  const std::string tokenizer = "chat";
  stoa_ok(evaluate("pick,read,tell", kept + Arguments{"files", "--dtype", "fp32"}));
  stoa_ok(evaluate("pick,read,tell", kept + Arguments{"served"} + api({"--tokenizer", tokenizer})));
  for (const char* task : {"pick", "read", "tell"}) expect_equal("files", "served", task);
  stoa_ok(evaluate("tell", kept + Arguments{"files-chat", "--dtype", "fp32", "--apply_chat_template"}));
  stoa_ok(evaluate("tell", kept + Arguments{"served-chat", "--apply_chat_template"} +
                               api({"--api-chat", "--api-requests", "2"})));
  expect_equal("files-chat", "served-chat", "tell");
}

// The connection is encrypted, and the server's certificate is looked at.
TEST_F(EvalApi, EncryptedServers) {
  const auto file = [](const char* name) {
    return (test::source_dir() / "tests/fixtures/tls" / name).string();
  };
  serve({"--ssl-certfile", file("certificate.pem"), "--ssl-keyfile", file("key.pem")});
  const auto ask = [&](const std::string& host, const Arguments& environment) {
    ProgramOptions options;
    options.directory = directory();
    options.program = "/usr/bin/env";
    return Program(environment + Arguments{test::program().string()} +
                       evaluate("tell", {"--api", "https://" + host + ":" + std::to_string(port()) + "/v1",
                                         "--tokenizer", "chat"}),
                   options)
        .wait();
  };
  const Arguments trusted{"SSL_CERT_FILE=" + file("certificate.pem")};
  for (const char* host : {"localhost", "127.0.0.1"}) {
    const Outcome outcome = ask(host, trusted);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.text();
  }
  const Outcome nobody = ask("localhost", {});
  EXPECT_EQ(nobody.exit_code, 1) << nobody.text();
  EXPECT_THAT(nobody.err, HasSubstr("certificate verify failed"));
  EXPECT_THAT(nobody.err, HasSubstr("SSL_CERT_FILE"));
  const Outcome another = ask("127.0.0.2", trusted);
  EXPECT_EQ(another.exit_code, 1) << another.text();
}

TEST_F(EvalApi, WhatCannotBeAskedIsNamed) {
  serve();
  const auto refuse = [&](const Arguments& arguments, const std::string& words) {
    const Outcome outcome = stoa(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(words));
  };
  refuse(evaluate("pick", api()), "give --tokenizer");
  refuse(evaluate("pick", api({"--api-chat"})), "a chat gives no log-likelihoods");
  refuse(evaluate("pick", {"--api-chat"}), "--api-chat is for --api");
  refuse(evaluate("pick", api({"--ranks", "2"})), "give --api-requests instead");
  refuse(evaluate("pick", {"--api", "somewhere"}), "expected http://HOST:PORT/v1");
  refuse(evaluate("tell", api({"--api-chat", "--gen_kwargs", "max_gen_toks=100000"})), "status 400");
  Arguments nobody = evaluate("tell", api({"--api-chat"}));
  nobody.back() = "--api-chat";
  nobody[nobody.size() - 2] = "http://127.0.0.1:1/v1";
  refuse(nobody, "http://127.0.0.1:1/v1");
}

}  // namespace
}  // namespace stoa::e2e
