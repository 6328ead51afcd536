#include "foreign/megatron/shell_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "foreign/megatron/command_line.h"
#include "foreign/megatron/shell_arithmetic.h"
#include "foreign/megatron_arguments.h"

namespace stoa::foreign {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> script_words(const std::string& text) {
  return read_shell_script(text, "job.sh").words;
}

TEST(MegatronScript, ResolvesWhatIsConstant) {
  const auto words = script_words(R"sh(#!/bin/bash
#SBATCH --nodes=4
GPUS=8   # of a node
NODES=${SLURM_NNODES:-1}
WORLD=$(($GPUS * NODES))
MODE=${MODE:-"large"}
if [ "$MODE" == "small" ]; then
  LAYERS=2
elif [[ $MODE == large && $WORLD -gt 16 ]]; then
  LAYERS=24
else
  LAYERS=3
fi
MODEL=(
    --num-layers $LAYERS   # a comment's "quote
    --hidden-size "1024" \
    --num-attention-heads 16
)
[ -n "$MODE" ] && MODEL+=(--bf16)
[ -z "$MODE" ] && MODEL+=(--fp16)
MORE="--seq-length 2048 \
      --lr $(( 3 * (2 + 4) ))"
cat <<EOT > config.json
{ "a": '$GPUS }
EOT
MORE="$MORE --seed ${SEEDS[1]:-7}"
torchrun --nproc_per_node $GPUS pretrain_gpt.py ${MODEL[@]} $MORE --save "$OUT/x y" 2>&1 | tee log.txt
)sh");
  EXPECT_THAT(words, Contains("24"));
  EXPECT_THAT(words, Contains("--bf16"));
  EXPECT_THAT(words, Not(Contains("--fp16")));
  EXPECT_THAT(words, Contains("18"));
  EXPECT_THAT(words, Contains("7"));
  EXPECT_EQ(shown_word(words.back()), "$OUT/x y");
}

TEST(MegatronScript, FindsTheCommandInsideOthers) {
  for (const char* text :
       {"CMD=\"pretrain_gpt.py --num-layers 2 --bf16 --lr 1\"\nL='python -m torch.distributed.run'\n"
        "clear; srun -N 2 bash -c \"$L --node_rank \\$ID $CMD\" | tee log\n",
        "options=\" --num-layers 2 --bf16 --lr 1\"\nrun_cmd=\"deepspeed pretrain_gpt.py ${options} &> "
        "a.log\"\n"
        "echo ${run_cmd}\neval ${run_cmd}\n",
        "A=$(scontrol show 'x' $L | head -n 1)\nP=`date +'%y %d'`\nexport CMD=\"`pwd`/pretrain_gpt.py "
        "--num-layers 2 "
        "--pp-partition-method 'type:transformer|embedding' --bf16 --save $P --lr 1\"\n"
        "srun bash -c \"python -m torch.distributed.run --rdzv_endpoint $A:1 $CMD\" 2>&1 | tee log\n",
        "python pretrain_gpt.py \\\n  --num-layers 2 \\\n  --bf16 --lr 1\nset +x\n"}) {
    const auto words = script_words(text);
    EXPECT_THAT(words, Contains("--num-layers")) << text;
    EXPECT_EQ(words.back(), "1") << text;
  }
}

TEST(MegatronScript, WhatIsNotConstantIsNamed) {
  const TestFolder folder;
  const fs::path file = folder / "open.sh";
  const auto with = [&](const std::string& micro) {
    write_text(
        file,
        "python pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 8 "
        "--micro-batch-size " +
            micro + " --save $SAVE --tokenizer-model $TOKENIZER $EXTRA\n");
    return read_megatron(file.string());
  };
  const auto read = with("2");
  EXPECT_THAT(read.ignored, Contains(HasSubstr("--save $SAVE")));
  EXPECT_THAT(read.notes, Contains(HasSubstr("taken as empty: $EXTRA")));
  EXPECT_THAT(read.notes, Contains(HasSubstr("--tokenizer-model $TOKENIZER is not here")));
  try {
    with("$MBS");
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the script does not set $MBS of --micro-batch-size $MBS"));
  }
}

TEST(MegatronScript, FollowsCases) {
  const auto words_for = [](const std::string& size) {
    return script_words("SIZE=" + size + R"sh(
case "$SIZE" in
  7B|8B)
    L=32; H=4096 ;;
  7*) L=1 ;;
  "13B") L=40
    if [ $L = 40 ]; then H=5120; fi
    case $H in 5120) N=40 ;; *) N=1 ;; esac
    ;;
  *) L=2; H=64; N=2 ;;
esac
case x in y) L=9 ;; esac
python pretrain_gpt.py --num-layers $L --hidden-size $H --num-attention-heads ${N:-32} --lr $(dirname a/b/c)
)sh");
  };
  const auto with = [](const char* layers, const char* hidden, const char* heads) {
    return ElementsAre("python", "pretrain_gpt.py", "--num-layers", layers, "--hidden-size", hidden,
                       "--num-attention-heads", heads, "--lr", "a/b");
  };
  EXPECT_THAT(words_for("8B"), with("32", "4096", "32"));
  EXPECT_THAT(words_for("13B"), with("40", "5120", "40"));
  EXPECT_THAT(words_for("1T"), with("2", "64", "2"));
}

TEST(MegatronScript, WhatNobodyCanDecideIsLeftOutWithItsElse) {
  const auto command = read_shell_script(
      "L=1\nif [ $1 = a ]; then L=2; elif [ 1 = 1 ]; then L=3; else exit 1; fi\n[ $1 = b ] && L=4\n"
      "[ $1 = b ] || L=5\ncase $1 in a) L=6 ;; *) L=7 ;; esac\nif [ -z \"$TOKENIZER\" ]; then T=gpt; fi\n"
      "[[ abc == a* ]] && B=--bf16\npython pretrain_gpt.py --num-layers $L --lr 1 --tokenizer-type $T $B\n",
      "job.sh");
  EXPECT_THAT(command.words, ElementsAre("python", "pretrain_gpt.py", "--num-layers", "1", "--lr", "1",
                                         "--tokenizer-type", "gpt", "--bf16"));
  EXPECT_THAT(command.notes, Contains(HasSubstr("line 2: what follows '[ $1 = a ]' is left out")));
  EXPECT_THAT(command.notes, Contains(HasSubstr("the branches of 'case $1' are left out")));
  EXPECT_THAT(command.notes, Contains(HasSubstr("taken as unset: TOKENIZER")));
}

class MegatronScripts : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "parts"); }
  std::string write(const std::string& name, const std::string& text) const {
    write_text(folder_ / name, text);
    return (folder_ / name).string();
  }
  const TestFolder folder_;
};

// As SC21's run_table_1.sh, which is in several files.
TEST_F(MegatronScripts, ReadsWhatItSourcesAndSubmits) {
  write("CONFIG.sh", "export PARAMS=\" ${MORE} --num-layers ${L} --hidden-size 64 --lr 1\"\n");
  write("SUBMIT.sh",
        "sbatch -p <queue> --job-name=a \\\n  --nodes=${NODES} --export=PARAMS JOB.sh\nexit 0\n");
  write("JOB.sh",
        "#!/bin/bash\n#SBATCH -t 0:30:00 --exclusive --ntasks-per-node=8\n"
        "CMD=\"python -u $CODE/pretrain_gpt.py ${PARAMS} $HIDDEN\"\nsrun -l sh -c \"${CMD}\"\n");
  const std::string run = write("run.sh",
                                "L=24\nNODES=315\nHIDDEN=not-exported\nMORE=\"--bf16 \"\n. `pwd`/CONFIG.sh\n"
                                "source $(cd \"$(dirname \"$0\")\" && pwd)/SUBMIT.sh\nexit 0\n");
  const MegatronText text = megatron_text(run);
  EXPECT_EQ(text.nodes, 315);
  EXPECT_EQ(text.devices, 8);
  EXPECT_TRUE(text.whole);  // the text of what is submitted, with what it is given
  EXPECT_THAT(text.text, HasSubstr("#SBATCH --nodes=315\n"));
  EXPECT_THAT(text.text, HasSubstr("srun -l sh -c"));
  EXPECT_THAT(text.words, AllOf(Contains("--bf16"), Contains("24"), Not(Contains("not-exported"))));
}

TEST_F(MegatronScripts, TakesVariablesAndWordsThatItIsStartedWith) {
  write("parts/inner.sh",
        "torchrun --nproc_per_node ${G:-1} pretrain_gpt.py --num-layers $1 --hidden-size $H --lr $2 $#\n");
  const std::string run =
      write("run.sh",
            "SIZE=$1\nshift\nif [ $SIZE = 7B ]; then L=32; elif [ $SIZE = 13B ]; then L=40; fi\n"
            "export H=${H:-64}\nG=8 bash parts/inner.sh $L ${1:-5}\n");
  EXPECT_THAT(megatron_text("bash " + run + " 13B 7").words,
              ElementsAre("torchrun", "--nproc_per_node", "8", "pretrain_gpt.py", "--num-layers", "40",
                          "--hidden-size", "64", "--lr", "7", "2"));
  EXPECT_THAT(megatron_text("H=128 " + run + " 7B").words,
              AllOf(Contains("32"), Contains("128"), Contains("5")));
  const std::string yaml = write("model_config.yaml", "MODEL_ARGS:\n  --num-layers: ${L}\n  --lr: $RATE\n");
  EXPECT_THAT(megatron_text("L=3 " + yaml).words, Contains("3"));
  EXPECT_EQ(megatron_text("OMP_NUM_THREADS=1 torchrun pretrain_gpt.py --num-layers 2").kind,
            MegatronText::Kind::kArguments);
}

TEST_F(MegatronScripts, WhatIsNotHereIsNamed) {
  const auto message = [](const std::string& source) -> std::string {
    try {
      megatron_text(source);
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  };
  EXPECT_THAT(
      read_megatron_command(
          script_words("python pretrain_gpt.py --lr 1 --bf16 --recompute-modules mlp $MORE --seed 3\n"))
          .open_words,
      ElementsAre("$MORE"));
  EXPECT_THAT(message(write("a.sh", "source $HERE/x.sh\nbash missing.sh 3\n")),
              HasSubstr("it runs $HERE/x.sh, missing.sh, which is not here"));
  const std::string self = write("self.sh", "bash self.sh\nsource self.sh\n");
  EXPECT_THAT(message(self), HasSubstr("read each other without an end"));
}

// Such as the configurations of models that Megatron's own scripts read.
TEST(MegatronScript, ReadsWhatAScriptSetsWhereItRunsNothing) {
  const auto words = script_words(
      "#!/bin/bash\nif [ -z ${CKPT} ]; then\n  TOKENIZER_MODEL=a/b\nfi\n"
      "GQA=\"--group-query-attention --num-query-groups 8 --qk-layernorm\"\n"
      "ENV=\"--micro-batch-size 1 --global-batch-size 2 --seed 3\"\nOTHER=\"--none of --these\"\n"
      "MODEL_ARGS=\" \\\n  --num-layers 36 \\\n  --hidden-size 4096 $GQA \\\n\"\n");
  EXPECT_THAT(words, ElementsAre("--micro-batch-size", "1", "--global-batch-size", "2", "--seed", "3",
                                 "--num-layers", "36", "--hidden-size", "4096", "--group-query-attention",
                                 "--num-query-groups", "8", "--qk-layernorm"));
  EXPECT_THAT(
      script_words("ARGS=(--bf16 --num-layers 2)\nCMD=\"cd x; python a/pretrain_gpt.py ${ARGS[@]} --lr 1 &> "
                   "log\"\nsbatch <<EOF\nEOF\n"),
      ElementsAre("a/pretrain_gpt.py", "--bf16", "--num-layers", "2", "--lr", "1"));
}

TEST(MegatronScript, BrokenScriptsAreErrors) {
  for (const char* text : {"X=\"a", "X=(a\n", "X=$(( 1", "X=${a", "echo hello\n", "X=`a", "X='"})
    EXPECT_THROW(script_words(text), UsageError) << text;
  std::string deep = "X=";
  for (int i = 0; i < 200'000; ++i) deep += "${X:-";
  EXPECT_THROW(script_words(deep), UsageError);
  EXPECT_THROW(read_megatron("nowhere/run.sh"), UsageError);
}

TEST(MegatronScript, Arithmetic) {
  const auto at = [](std::string_view text) {
    return shell_arithmetic(text, [](std::string_view name) -> std::optional<std::string> {
      if (name == "A") return "4";
      if (name == "LOOP") return "LOOP";
      return {};
    });
  };
  EXPECT_EQ(at("1 + 2*A"), 9);
  EXPECT_EQ(at("(${A} - 1) * -2"), -6);
  EXPECT_EQ(at("2**10 / 3 % 7"), 5);
  EXPECT_EQ(at("A == 4"), 1);
  for (const char* none : {"B", "1/0", "9223372036854775807+1", "LOOP", "1 +", "", "a b"})
    EXPECT_FALSE(at(none).has_value()) << none;
}

// "set --" gives the words of a script anew; without any it takes them away.
TEST(MegatronScript, SetsItsWords) {
  const std::string command = "python pretrain_gpt.py --num-layers ${1:-2} --seq-length $# --bf16\n";
  const ScriptStart start{{}, {{"9", "8"}}};
  const auto words = [&](const char* line) {
    return read_shell_script(line + command, "job.sh", start).words;
  };
  EXPECT_THAT(words("set -e\n"), AllOf(Contains("9"), Contains("2")));
  EXPECT_THAT(words("set -- 4 5 6\n"), AllOf(Contains("4"), Contains("3"), Not(Contains("9"))));
  EXPECT_THAT(words("set --\n"), AllOf(Contains("2"), Contains("0"), Not(Contains("9"))));
}

// The scripts that a script reads stand in it, in place of the lines that read them, so that a plan can be
// written into the user's own text.
TEST(MegatronScript, BecomesOneTextWithWhatItReads) {
  const TestFolder folder;
  write_text(folder / "env.sh", "#!/bin/bash\n# sizes\nHIDDEN=${HIDDEN:-1024}\nsource layers.sh\n");
  write_text(folder / "layers.sh", "LAYERS=24  # as published\n");
  write_text(
      folder / "run.sh",
      "#!/bin/bash\n#SBATCH --nodes=2\n\n  source \"$(dirname \"$0\")/env.sh\"\n# the batch\nBATCH=$1\n"
      "python pretrain_gpt.py --num-layers $LAYERS --hidden-size $HIDDEN --num-attention-heads 16 "
      "--seq-length 2048 --micro-batch-size $BATCH\n");
  const std::string run = (folder / "run.sh").string();
  const MegatronText text = megatron_text("HIDDEN=2048 " + run + " 4");
  EXPECT_TRUE(text.whole);
  EXPECT_THAT(text.text, AllOf(HasSubstr("#SBATCH --nodes=2\nexport HIDDEN=2048\nset -- 4\n"),
                               HasSubstr("# sizes\n"), HasSubstr("LAYERS=24  # as published\n"),
                               HasSubstr("# the batch\n"), Not(HasSubstr("\n  source"))));
  EXPECT_EQ(megatron_text(MegatronText::Kind::kScript, text.text, "alone.sh").words, text.words);
  // What asks where it is stays apart.
  write_text(folder / "layers.sh", "HERE=${BASH_SOURCE[0]}\nLAYERS=24\n");
  EXPECT_FALSE(megatron_text(run + " 4").whole);
  write_text(folder / "layers.sh", "LAYERS=24\n[ -n \"$LAYERS\" ] && return\n");
  EXPECT_FALSE(megatron_text(run + " 4").whole);
}

}  // namespace
}  // namespace stoa::foreign
