// Scripts in several files as one text, which a plan changes where its lines stand.
#include "foreign/megatron/one_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_folder.h"
#include "foreign/megatron_arguments.h"

namespace stoa::foreign {
namespace {

using ::testing::HasSubstr, ::testing::Not;

class OneScriptText : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    write_text(folder_ / name, text);
    return (folder_ / name).string();
  }
  // What starts Megatron-LM, with sizes that it is given: a number of layers, and a width in its environment.
  void write_trainer(const std::string& header = "") {
    write("trainer.sh",
          "#!/bin/bash\n" + header +
              "LAYERS=$1\n"
              "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers $LAYERS "
              "--hidden-size ${HIDDEN:-512} \\\n"
              "    --num-attention-heads 8 --seq-length 1024 --data-path $DATA  # the user's own line\n");
  }

  const TestFolder folder_;
};

TEST_F(OneScriptText, AStartedScriptIsItsOwnTextWithWhatItIsGiven) {
  write_trainer();
  const MegatronText text = megatron_text(
      write("all.sh", "mkdir -p logs\nexport HIDDEN=1024\nOTHER=3\nbash trainer.sh 24 $DATA\n"));
  EXPECT_TRUE(text.whole);
  EXPECT_THAT(text.text, HasSubstr("#!/bin/bash\n# " + (folder_ / "trainer.sh").string() + ", as "));
  EXPECT_THAT(text.text, HasSubstr("export HIDDEN=1024\nset -- 24 \"${DATA}\"\nLAYERS=$1\n"));
  EXPECT_THAT(text.text, HasSubstr("# the user's own line"));
  EXPECT_THAT(text.text, Not(HasSubstr("OTHER")));  // which is not in its environment
}

TEST_F(OneScriptText, ScriptsThatStartEachOtherEndInTheLast) {
  write_trainer();
  write("middle.sh", "export HIDDEN=$WIDTH\nsh trainer.sh $1\n");
  const MegatronText text =
      megatron_text("WIDTH=256 bash " + write("all.sh", "WIDTH=$WIDTH bash middle.sh 12\n"));
  EXPECT_TRUE(text.whole);
  EXPECT_THAT(text.text, HasSubstr("export HIDDEN=256\n"));
  EXPECT_THAT(text.text, HasSubstr("set -- 12\n"));
}

TEST_F(OneScriptText, WhatSbatchIsToldIsInTheHeader) {
  write_trainer("\n#SBATCH --time=01:00:00\n");
  const MegatronText text =
      megatron_text(write("all.sh", "sbatch --nodes=4 --export=ALL,HIDDEN=768 trainer.sh 24\n"));
  EXPECT_TRUE(text.whole);
  EXPECT_THAT(text.text, HasSubstr("#!/bin/bash\n\n#SBATCH --time=01:00:00\n#SBATCH --nodes=4\n"));
  EXPECT_THAT(text.text, HasSubstr("export HIDDEN=768\nset -- 24\n"));
  EXPECT_THAT(text.text, Not(HasSubstr("SLURM_")));  // which Slurm sets
}

// The ranks of srun and of the starting script's own header would be lost.
TEST_F(OneScriptText, WhatTheStartingScriptAsksOfSlurmStays) {
  write_trainer();
  EXPECT_FALSE(megatron_text(write("srun.sh", "srun trainer.sh 24\n")).whole);
  EXPECT_FALSE(megatron_text(write("job.sh", "#!/bin/bash\n#SBATCH --nodes=2\nbash trainer.sh 24\n")).whole);
}

TEST_F(OneScriptText, LineEndsOfWindowsAreLeftOut) {
  write("sizes.sh", "LAYERS=24\r\n");
  const MegatronText text = megatron_text(write(
      "train.sh",
      "#!/bin/bash\r\nsource sizes.sh\r\npython pretrain_gpt.py --num-layers $LAYERS --hidden-size 512 \\\r\n"
      "  --num-attention-heads 8\r\n"));
  EXPECT_THAT(text.words, ::testing::ElementsAre("python", "pretrain_gpt.py", "--num-layers", "24",
                                                 "--hidden-size", "512", "--num-attention-heads", "8"));
  ASSERT_EQ(text.notes.size(), 1u);
  EXPECT_THAT(text.notes[0], HasSubstr("line ends of Windows"));
}

}  // namespace
}  // namespace stoa::foreign
