#include "serve/page.h"

namespace stoa::serve {

http::Headers page_headers() {
  return {{"Content-Security-Policy",
           "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
           "connect-src "
           "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
          {"Referrer-Policy", "no-referrer"},
          {"Cache-Control", "no-cache"}};
}

}  // namespace stoa::serve
