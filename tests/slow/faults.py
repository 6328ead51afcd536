#!/usr/bin/env python3
"""faults.py BUILD [TRIALS] [SEED]: ranks that are processes, of which one is killed (SIGKILL), stopped (SIGSTOP) or held up for a while,
in every phase of a run: while they meet, prepare, agree, in the first step, a validation, a save, at the end. The others must end, or go
on, and what they say must name that rank and no other, within the time that communication_timeout and the ranks' answers give. Phases
are seen by the files of the run. Half an hour.

The machine may be busy: only where a time-out alone can tell (a stopped rank, a rank that never came) it is short, and where another
rank had to wait for a processor for half of it, a trial that went wrong is repeated with ten times that. How long all took is said."""
import json, os, random, re, shutil, signal, socket, subprocess, sys, tempfile, time

build = os.path.realpath(sys.argv[1])
trials = int(sys.argv[2]) if len(sys.argv) > 2 else 200
random.seed(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
stoa = os.path.join(build, "src", "stoa")
SHORT, LONG = 6, 600  # seconds: communication_timeout where it must pass, and where it must not
HELD_UP = 3
HOURS = 7200  # none of this takes so long
PHASES = ["meeting", "preparation", "agreement", "first step", "validation", "save", "end"]
ACTIONS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP, "slowed": signal.SIGSTOP}


def make_data(folder):
    with open(f"{folder}/text.txt", "w") as out:
        for i in range(400):
            out.write(f"The keeper of house {i % 7} walks to the river in the morning, counts {i % 11} boats, and walks home.\n\n")
    for command in (["tokenizer", "train", "text.txt", "--vocab-size", "300", "--output", "tok"],
                    ["data", "prepare", "text.txt", "--tokenizer", "tok", "--output", "data", "--text-split", "paragraph"]):
        subprocess.run([stoa, *command], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def arguments(run, layout, timeout):
    return ["train", "tiny", "model.data=data", "model.tokenizer=tok", "model.data.splits_string='90,10,0'", "model.num_layers=4",
            "model.hidden_size=32", "model.num_attention_heads=2", "model.encoder_seq_length=32", "model.micro_batch_size=1",
            "model.global_batch_size=12", "model.optim.sched.warmup_steps=2", "trainer.max_steps=40", "trainer.log_every_n_steps=1",
            "trainer.val_check_interval=5", "trainer.limit_val_batches=2", "trainer.num_threads=1",
            f"model.data.index_mapping_dir={run}-cache",
            f"trainer.communication_timeout={timeout}s", "exp_manager.checkpoint_callback_params.every_n_train_steps=10",
            "--output", run, *layout]


def layouts(ranks):
    out = [["model.zero_stage=1"]]
    if ranks in (2, 4):
        out += [["model.pipeline_model_parallel_size=%d" % ranks], ["model.tensor_model_parallel_size=2"]]
    if ranks == 3:
        out += [["model.pipeline_model_parallel_size=3", "model.num_layers=3"]]
    return out


def start(folder, kind, ranks, run, layout, timeout):
    errors = open(f"{folder}/{run}.log", "w")
    command = [stoa, *arguments(run, layout, timeout)]
    if kind == "mpi":
        env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", FAULTS_RUN=f"{os.getpid()}-{run}")
        return [subprocess.Popen(["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command], cwd=folder, env=env,
                                 stdout=subprocess.DEVNULL, stderr=errors)]
    with socket.socket() as s:
        s.bind(("", 0))
        port = s.getsockname()[1]
    return [subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=errors,
                             env=dict(os.environ, RANK=str(r), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)))
            for r in range(ranks)]


def process_of(kind, jobs, rank, run):
    """The process of a rank; 0: not there."""
    if kind == "tcp":
        return jobs[rank].pid if jobs[rank].poll() is None else 0
    for entry in os.listdir("/proc"):
        try:
            environment = open(f"/proc/{entry}/environ", "rb").read().split(b"\0") if entry.isdigit() else []
        except OSError:
            continue
        if f"FAULTS_RUN={os.getpid()}-{run}".encode() in environment and f"OMPI_COMM_WORLD_RANK={rank}".encode() in environment:
            return int(entry)
    return 0


class Delays:
    """For how many seconds each rank was ready to run and had no processor, all its threads together."""

    def __init__(self, kind, jobs, ranks, run):
        self.of_rank = [0.0] * ranks
        self.place = (kind, jobs)
        self.run = run
        self.pids = [0] * ranks
        self.next = 0

    def look(self):
        if time.time() < self.next:
            return
        self.next = time.time() + 0.2
        for rank, pid in enumerate(self.pids):
            self.pids[rank] = pid = pid or process_of(*self.place, rank, self.run)
            try:
                waited = sum(int(open(f"/proc/{pid}/task/{t}/schedstat").read().split()[1]) for t in os.listdir(f"/proc/{pid}/task")) if pid else 0
            except (OSError, IndexError):
                continue
            self.of_rank[rank] = max(self.of_rank[rank], waited / 1e9)


def reached(folder, run, phase):
    path = f"{folder}/{run}"
    if phase == "meeting":
        return True
    if phase == "preparation":
        return os.path.exists(f"{path}-cache")
    if phase == "agreement":
        return os.path.exists(path)  # made for the proof that all see it
    if phase == "first step":
        return os.path.exists(f"{path}/config.yaml")
    if phase == "validation":
        try:
            return any("val" in key for line in open(f"{path}/metrics.jsonl") for key in json.loads(line))
        except (OSError, ValueError):
            return False
    try:
        names = os.listdir(f"{path}/checkpoints")
    except OSError:
        return False
    if phase == "save":
        return any(name.startswith(".step-") for name in names)
    return "step-0000040" in names or any(name.startswith(".step-0000040") for name in names)


def trial(folder, number):
    case = {"kind": random.choice(["tcp", "mpi"]), "action": random.choice(list(ACTIONS)), "phase": PHASES[number % len(PHASES)],
            "ranks": random.choice([2, 3, 4])}
    case["victim"] = random.randrange(case["ranks"])
    case["layout"] = random.choice(layouts(case["ranks"]))
    by_timeout = case["action"] == "stopped" or (case["action"] == "killed" and case["phase"] == "meeting")
    timeout = SHORT if by_timeout else LONG
    name = f"{number}: {case['kind']}, rank {case['victim']} of {case['ranks']} {case['action']} at {case['phase']}, {' '.join(case['layout'])}"
    while True:
        problem, end, took, starved, text = attempt(folder, f"run{number}-{timeout}", timeout, **case)
        if not problem or starved < timeout / 2 or timeout >= LONG:
            break
        print(f"again {name}: {problem}, but another rank waited {starved:.1f} s for a processor", flush=True)
        timeout *= 10
    print(f"{'FAILED' if problem else 'ok'} {name}: {problem or end}, {took:.1f} s", flush=True)
    if problem:
        print(text[-3000:])
    return not problem, timeout, took if by_timeout else 0


def attempt(folder, run, timeout, kind, action, phase, ranks, victim, layout):
    jobs = start(folder, kind, ranks, run, layout, timeout)
    delays = Delays(kind, jobs, ranks, run)
    limit = time.time() + HOURS
    while not reached(folder, run, phase) and any(j.poll() is None for j in jobs) and time.time() < limit:
        delays.look()
        time.sleep(0.002)
    pid = 0
    while pid == 0 and any(j.poll() is None for j in jobs) and time.time() < limit:
        pid = process_of(kind, jobs, victim, run)
    if phase == "meeting":
        time.sleep(random.uniform(0, 0.1))
    hit = False
    if pid:
        try:
            os.kill(pid, ACTIONS[action])
            hit = True
        except ProcessLookupError:
            pass
    begin = time.time()
    if action == "slowed" and hit:
        time.sleep(HELD_UP)
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass
    # A stopped rank ends when its launcher ends it.
    others = [j for r, j in enumerate(jobs) if kind == "mpi" or r != victim or action != "stopped" or not hit]
    while any(j.poll() is None for j in others) and time.time() - begin < HOURS:
        delays.look()
        time.sleep(0.02)
    took = time.time() - begin
    hung = any(j.poll() is None for j in others)
    for j in jobs:
        if j.poll() is None:
            if kind == "mpi":
                for r in range(ranks):
                    left = process_of(kind, jobs, r, run)
                    if left:
                        os.kill(left, signal.SIGKILL)
            j.kill()
        j.wait()
    text = open(f"{folder}/{run}.log", errors="replace").read()
    codes = [j.returncode for j in others]
    for left in (run, f"{run}-cache"):
        shutil.rmtree(f"{folder}/{left}", ignore_errors=True)
    problem = ""
    if hung:
        problem = f"hangs after {took:.0f} s"
    elif action == "slowed" or not hit or all(c == 0 for c in codes):
        # All was done before, or the rank came back.
        if any(c != 0 for c in codes):
            problem = f"ends with {codes}"
    else:
        errors = "\n".join(line for line in text.split("\n") if line.startswith("ERROR") or "mpirun noticed" in line or "signal 9" in line)
        named = {int(n) for listed in re.findall(r"((?:rank \d+(?:@[\w.-]+)?(?:, )?)+) never arrived", errors)
                 for n in re.findall(r"rank (\d+)", listed)}
        named |= {int(n) for n in re.findall(r"connection to rank (\d+)|of \d+ ranks, (\d+) did not connect|rank (\d+) came to|"
                                             r"rank (\d+) with PID|reached by rank (\d+)|reach rank (\d+)|found no rank (0)|answer rank (\d+)",
                                             errors) for n in n if n}
        if re.search(r"what listens at|rank 0 at .* was lost|is rank 0 of this job there", errors):
            named = {0}
        anonymous = "MPI_Init" in errors or "MPI_Finalize" in errors  # MPI does not say who is missing
        if not errors:
            problem = "nobody says why"
        elif action == "killed" and timeout == LONG and "never arrived" in errors:
            problem = "the death was not noticed, but waited for"
        elif not anonymous and named != {victim}:
            problem = f"names {sorted(named)}"
    starved = max(d for r, d in enumerate(delays.of_rank) if r != victim)
    return problem, codes if hit else "over before", took, starved, text


with tempfile.TemporaryDirectory(prefix="faults-") as folder:
    make_data(folder)
    results = [trial(folder, n) for n in range(trials)]
good = sum(result[0] for result in results)
longest = max((took for _, timeout, took in results if timeout == SHORT), default=0)
print(f"{good} of {trials} trials as they should be; where a time-out of {SHORT} s had to tell, all had ended after at most {longest:.1f} s")
sys.exit(0 if good == trials else 1)
