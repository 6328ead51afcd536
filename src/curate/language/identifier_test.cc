#include "curate/language/identifier.h"

#include <gmock/gmock.h>

namespace stoa::curate {
namespace {

std::string best(const LanguageIdentifier& identifier, std::string_view text) {
  const auto found = identifier.identify(text);
  return found.empty() ? "" : found.front().first;
}

TEST(Languages, Cld2HasItsFullTables) {
  const auto cld2 = make_cld2();
  EXPECT_EQ(best(*cld2, "The harbour was quiet in the morning, and the boats lay at the quay."), "en");
  EXPECT_EQ(best(*cld2, "Bonke abantu bazalwa bekhululekile belingana ngesithunzi nangamalungelo."), "zu");
  EXPECT_EQ(best(*cld2, "Gbogbo ènìyàn ni a bí ní òmìnira; iyì àti ẹ̀tọ́ kọ̀ọ̀kan sì dọ́gba."), "yo");
}

TEST(Languages, TheClassifierNamesWhatCld2DoesNotKnow) {
  const std::string_view bambara =
      "Hadamadenw bɛɛ danmakɛɲɛnen bɛ bange, danbe ni josira la. Hakili ni taasi b'u bɛɛ la, u ka kan ka "
      "badenɲasira de waleya u ni ɲɔgɔn cɛ.";
  EXPECT_EQ(best(*make_cld2(), bambara), "");
  const auto both = make_cld2_with_classifier();
  EXPECT_EQ(best(*both, bambara), "bm");
  const std::string_view fon =  // held out from what the classifier was trained with
      "Mɛ e e vɛ nu nyanyaɖe do é na to ɖo yi tɔn yi wɛ hwɛ bɔ e na ba do nu lee nu lɛ yi gbɔn e cobo na "
      "ylɔ ɛ ɖo hwɛnukɔn";
  EXPECT_EQ(best(*make_cld2(), fon), "");
  EXPECT_EQ(best(*both, fon), "fon");
  EXPECT_EQ(best(*both, "The harbour was quiet in the morning, and the boats lay at the quay."), "en");
  EXPECT_EQ(best(*both, ""), "");
}

TEST(Languages, OfLongTextsTheBeginningIsJudged) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "Das Boot liegt am Ufer, und über dem Fluß ist es noch früh. ";
  const std::size_t german = text.size();
  for (int i = 0; i < 100; ++i)
    text += "The harbour was quiet in the morning, and the boats lay at the quay. ";
  EXPECT_EQ(best(*make_cld2(), text), "en");
  // Also where the limit lies within a character.
  for (std::size_t bytes = german - 61; bytes < german; ++bytes) {
    EXPECT_EQ(best(*make_cld2(bytes), text), "de");
    EXPECT_EQ(best(*make_cld2_with_classifier(bytes), text), "de");
  }
}

}  // namespace
}  // namespace stoa::curate
