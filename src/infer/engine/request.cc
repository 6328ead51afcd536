#include "infer/engine/request.h"

namespace stoa::infer {

const char* name_of(EndReason reason) {
  switch (reason) {
    case EndReason::kLength:
      return "length";
    case EndReason::kEndToken:
      return "end token";
    case EndReason::kStopText:
      return "stop text";
    case EndReason::kContext:
      return "context";
    case EndReason::kCaller:
      return "stopped";
    case EndReason::kNotANumber:
      return "not a number";
    case EndReason::kFailed:
      return "failed";
  }
  return "?";
}

}  // namespace stoa::infer
