// A small trained model, and `stoa serve` on it.
#pragma once

#include <memory>

#include "http_client.h"
#include "workplace.h"

namespace stoa::e2e {

class Served : public Workplace {
 protected:
  // chat/: a model of 8,192 positions with a chat template. Trained once per process, copied per test.
  void SetUp() override;
  void TearDown() override;

  // Starts `stoa serve chat --port 0` with `more`, and waits until it listens.
  void serve(const Arguments& more = {}) { serve_model("chat", more); }
  void serve_model(const std::string& model, const Arguments& more = {});
  Program& server() { return *server_; }
  std::uint16_t port() const { return port_; }

  HttpAnswer get(const std::string& path, const std::string& headers = {}) const;
  HttpAnswer post(const std::string& path, const nlohmann::json& body, const std::string& headers = {}) const;
  HttpAnswer post_text(const std::string& path, const std::string& body) const;
  // The answer's JSON; expects 200.
  nlohmann::json ask(const std::string& path, const nlohmann::json& body) const;
  // A value of /metrics by the beginning of its line.
  double metric(const std::string& line) const;
  // Expects that nothing runs or waits within a minute.
  void expect_idle() const;

 private:
  std::unique_ptr<Program> server_;
  std::uint16_t port_ = 0;
};

}  // namespace stoa::e2e
