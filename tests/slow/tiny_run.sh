# Sourced by scripts that need a run of a few seconds: makes text, a tokenizer and data in the current folder with $stoa, and
# `run`, the arguments of four steps with the configuration of $source.
for i in $(seq 1 200); do
  echo "The keeper of house $((i % 7)) walks to the river in the morning, counts the boats, and walks home again."
done > text.txt
"$stoa" tokenizer train text.txt --vocab-size 300 --output tok > /dev/null 2>&1
"$stoa" data prepare text.txt --tokenizer tok --output data > /dev/null 2>&1
run=("$source/configs/tiny.yaml" model.data=data model.tokenizer=tok trainer.max_steps=4 trainer.val_check_interval=0
     trainer.num_threads=1 model.optim.sched.warmup_steps=1 model.micro_batch_size=2 model.global_batch_size=8
     'model.data.splits_string="1,0,0"')
