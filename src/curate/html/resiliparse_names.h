// What Resiliparse's rules for main content read in the class and the id of an element.
#pragma once

#include <cstdint>
#include <string_view>

namespace stoa::curate::resiliparse {

// The kinds of parts whose names it knows.
enum class Part : std::uint8_t {
  kHidden,
  kSkipLink,
  kSignIn,
  kSocial,
  kLogo,
  kAdvertisement,
  kArticle,
  kHeader,
  kFooter,
  kNavigation,
  kRecommended,
  kSearch,
  kSidebar,
  kModal,
  kGallery,
  kPrint
};

// Whether a part of this kind is named somewhere in `text`, which is a class, an id, or a class, a space and
// an id. Letters of either case.
bool names(Part part, std::string_view text);

bool is_landmark(std::string_view id);
bool is_main_class(std::string_view name);  // one that is the root of the main content, in this case only
bool hides(std::string_view style);
bool is_view_count_or_spinner(std::string_view classes);  // in small letters

}  // namespace stoa::curate::resiliparse
