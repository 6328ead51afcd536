#include "eval/builtin/code_tests.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "eval/builtin/document.h"
#include "eval/python/regex.h"
#include "eval/sandbox/python_sandbox.h"

namespace stoa::eval {
namespace {

const PythonSandbox& code_sandbox() {
  static const PythonSandbox sandbox;
  return sandbox;
}

std::string first_code_block(const std::string& text) {
  static const PythonRegex kBlock("(?s)```(?:\\w+)?\\n?(.*?)\\n?```");
  for (const std::string& attempt : {"```" + text, replaced(text, "```python", "```")})
    if (const auto blocks = kBlock.find_all(attempt); !blocks.empty()) return blocks[0][0];
  return "";
}

struct PassCount {
  std::int64_t programs = 0, passed = 0;
};

PassCount run_tests(const Json& tests, const Json& programs) {
  PassCount out;
  const std::string behind = "\n" + str_of(tests);
  for (const Json& program : programs.is_array() ? programs : Json::array({programs})) {
    ++out.programs;
    out.passed += code_sandbox().run(str_of(program) + behind) == Outcome::kPassed;
  }
  return out;
}

double estimate(const PassCount& count, std::int64_t k) {
  if (count.programs - count.passed < k) return 1;
  double none = 1;
  for (std::int64_t i = count.programs - count.passed + 1; i <= count.programs; ++i)
    none *= 1.0 - static_cast<double>(k) / static_cast<double>(i);
  return 1.0 - none;
}

}  // namespace

void require_code_sandbox() { code_sandbox(); }

Json humaneval_programs(const Json& answers, const Json& doc) {
  Json out = Json::array();
  for (const Json& answer : answers) out.push_back(text_field(doc, "prompt") + answer.get<std::string>());
  return out;
}

Json humaneval_instruct_programs(const Json& answers, const Json& doc) {
  Json out = Json::array();
  for (const Json& answer : answers) {
    const auto& text = answer.get_ref<const std::string&>();
    out.push_back(text_field(doc, "prompt") + text.substr(0, text.find("```")));
  }
  return out;
}

Json mbpp_programs(const Json& answers, const Json&) {
  Json out = Json::array();
  for (const Json& answer : answers) out.push_back(first_code_block(answer));
  return out;
}

Json pass_at_k(const Json& tests, const Json& programs, const Json& arguments) {
  Json wanted = arguments.value("k", Json());
  if (wanted.is_number_integer()) wanted = Json::array({wanted});
  require<DataError>(wanted.is_array() && !wanted.empty(), "pass_at_k needs 'k', numbers of programs");
  const PassCount count = run_tests(tests, programs);
  Json out = Json::object();
  for (const Json& k : wanted)
    if (k.get<std::int64_t>() <= count.programs)
      out["pass@" + str_of(k)] = estimate(count, k.get<std::int64_t>());
  return out;
}

Json pass_at_1(const Json& tests, const Json& programs, const Json&) {
  return estimate(run_tests(tests, programs), 1);
}

Json mbpp_samples() {
  return Json::parse(R"json([
{"task_id": 2, "text": "Write a function to find the similar elements from the given two tuple lists.",
 "code": "def similar_elements(test_tup1, test_tup2):\r\n  res = tuple(set(test_tup1) & set(test_tup2))\r\n  return (res) ",
 "test_list": ["assert similar_elements((3, 4, 5, 6),(5, 7, 4, 10)) == (4, 5)",
               "assert similar_elements((1, 2, 3, 4),(5, 4, 3, 7)) == (3, 4)",
               "assert similar_elements((11, 12, 14, 13),(17, 15, 14, 13)) == (13, 14)"], "is_fewshot": true},
{"task_id": 3, "text": "Write a python function to identify non-prime numbers.",
 "code": "import math\r\ndef is_not_prime(n):\r\n    result = False\r\n    for i in range(2,int(math.sqrt(n)) + 1):\r\n        if n % i == 0:\r\n            result = True\r\n    return result",
 "test_list": ["assert is_not_prime(2) == False", "assert is_not_prime(10) == True", "assert is_not_prime(35) == True"],
 "is_fewshot": true},
{"task_id": 4, "text": "Write a function to find the largest integers from a given list of numbers using heap queue algorithm.",
 "code": "import heapq as hq\r\ndef heap_queue_largest(nums,n):\r\n  largest_nums = hq.nlargest(n, nums)\r\n  return largest_nums",
 "test_list": ["assert heap_queue_largest( [25, 35, 22, 85, 14, 65, 75, 22, 58],3)==[85, 75, 65] ",
               "assert heap_queue_largest( [25, 35, 22, 85, 14, 65, 75, 22, 58],2)==[85, 75] ",
               "assert heap_queue_largest( [25, 35, 22, 85, 14, 65, 75, 22, 58],5)==[85, 75, 65, 58, 35]"],
 "is_fewshot": true}])json");
}

}  // namespace stoa::eval
