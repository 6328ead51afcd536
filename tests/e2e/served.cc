#include "served.h"

#include <thread>

#include "base/file.h"
#include "base/test_folder.h"

namespace stoa::e2e {
namespace {

// Every answer begins with what the last message says.
constexpr const char* kTemplate =
    "{% for message in messages %}<{{ message['role'] }}> {{ message['content'] }}\n{% endfor %}"
    "{% if tools %}{{ tools | tojson }} <tool_call>{% endif %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}";

const fs::path& trained_model(const std::function<fs::path()>& train) {
  struct Kept {
    explicit Kept(const fs::path& from) { fs::copy(from, folder.path(), fs::copy_options::recursive); }
    TestFolder folder;
  };
  static const Kept kept(train());
  return kept.folder.path();
}

}  // namespace

void Served::SetUp() {
  Workplace::SetUp();
  const fs::path& model = trained_model([&] {
    stoa_ok(train("trained", {"trainer.max_steps=20", "model.position_embedding_type=rope",
                              "model.max_position_embeddings=8192", "trainer.val_check_interval=0"}));
    stoa_ok({"checkpoint", "export", "trained", "--dtype", "fp32", "--output", "exported"});
    write_text(path("exported/chat_template.jinja"), kTemplate);
    return path("exported");
  });
  fs::copy(model, path("chat"), fs::copy_options::recursive);
}

void Served::TearDown() {
  server_.reset();
  Workplace::TearDown();
}

void Served::serve_model(const std::string& model, const Arguments& more) {
  write_text(path("said.txt"), "");
  ProgramOptions options;
  options.directory = directory();
  options.output = path("said.txt");
  server_ = std::make_unique<Program>(
      Arguments{"serve", model, "--port", "0", "--threads", "1", "--dtype", "fp32"} + more, options);
  const bool listens =
      server_->wait_until([&] { return read_text(path("said.txt")).find('\n') != std::string::npos; });
  const std::string said = read_text(path("said.txt"));
  const std::string words = "://127.0.0.1:";
  const std::size_t at = said.find(words);
  ASSERT_TRUE(listens && said.starts_with("listening on http") && at != std::string::npos)
      << said << server_->errors();
  port_ = static_cast<std::uint16_t>(std::stoi(said.substr(at + words.size())));
}

HttpAnswer Served::get(const std::string& path, const std::string& headers) const {
  HttpConnection connection(port_);
  connection.send(http_request("GET", path, {}, headers));
  return connection.read();
}

HttpAnswer Served::post(const std::string& path, const nlohmann::json& body,
                        const std::string& headers) const {
  HttpConnection connection(port_);
  connection.send(http_request("POST", path, body.dump(), headers));
  return connection.read();
}

HttpAnswer Served::post_text(const std::string& path, const std::string& body) const {
  HttpConnection connection(port_);
  connection.send(http_request("POST", path, body));
  return connection.read();
}

nlohmann::json Served::ask(const std::string& path, const nlohmann::json& body) const {
  const HttpAnswer answer = post(path, body);
  EXPECT_EQ(answer.status, 200) << answer.body;
  return answer.json();
}

double Served::metric(const std::string& line) const {
  const std::string text = get("/metrics").body;
  const std::size_t at = text.find("\n" + line);
  if (at == std::string::npos) {
    ADD_FAILURE() << line << " is not in\n" << text;
    return -1;
  }
  const std::size_t end = text.find('\n', at + 1);
  const std::size_t space = text.rfind(' ', end);
  return std::stod(text.substr(space + 1, end - space - 1));
}

void Served::expect_idle() const {
  for (int i = 0; i < 600; ++i) {
    if (metric("vllm:num_requests_running") + metric("vllm:num_requests_waiting") == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ADD_FAILURE() << "requests are still open after a minute";
}

}  // namespace stoa::e2e
