// Server-sent events (text/event-stream; HTML standard, section 9.2.6), read as their bytes come.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stoa::serve {

class EventStream {
 public:
  // Reads on; the data of the events that end in `bytes`. Events without data, comments and other fields are
  // left out. DataError: an event of more than 64 MiB.
  std::vector<std::string> feed(std::string_view bytes);

 private:
  void end_line(std::vector<std::string>& events);

  std::string line_, data_;
  bool has_data_ = false;
  bool after_return_ = false;  // the line feed of a carriage return's line end may follow
  bool at_start_ = true;       // a byte order mark may stand here
};

}  // namespace stoa::serve
