#!/usr/bin/env python3
"""Clients that people use against `stoa serve`: openai-python (streams, embeddings off, errors, retries, classes as schemas, tools), Anthropic's, LangChain, litellm and
lm-eval's local-completions and local-chat-completions beside `stoa eval run` and transformers.  tests/slow/serve_clients.py STOA MODEL
MODEL: a directory with a chat template. Needs the packages openai, anthropic, langchain-openai and litellm; those that are missing are named.
LM_EVAL=path of lm-eval's program, where it lives in another environment."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

program, model = sys.argv[1:3]
failures = []


def expect(name, good, shown=""):
    print(f"{'ok  ' if good else 'FAIL'} {name} {shown}", flush=True)
    if not good:
        failures.append(name)


work = pathlib.Path(tempfile.mkdtemp())
(work / "keys.txt").write_text("a-key-for-tests\n")
server = subprocess.Popen([program, "serve", f"served={model}", "--port", "0", "--dtype", "fp32", "--api-key-file", str(work / "keys.txt")],
                          stdout=subprocess.PIPE, text=True)
url = server.stdout.readline().split()[-1]
knows_tools = "tools" in "".join(f.read_text() for f in pathlib.Path(model).glob("*") if f.name in ("chat_template.jinja", "tokenizer_config.json"))
print("server", url)
os.environ |= {"OPENAI_API_KEY": "a-key-for-tests", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def openai_python():
    import openai

    client = openai.OpenAI(base_url=url + "/v1")
    expect("models", client.models.list().data[0].id == "served" and client.models.retrieve("served").id == "served")
    text = client.completions.create(model="served", prompt="The sun", max_tokens=12, temperature=0, logprobs=2, echo=True)
    choice = text.choices[0]
    expect("completion", choice.text.startswith("The sun") and text.usage.completion_tokens <= 12, repr(choice.text))
    expect("echo", choice.logprobs.token_logprobs[0] is None
           and all(max(t.values()) >= p for t, p in zip(choice.logprobs.top_logprobs[1:], choice.logprobs.token_logprobs[1:])))
    asked = dict(model="served", messages=[{"role": "user", "content": "What barked?"}], max_completion_tokens=16, temperature=0)
    chat = client.chat.completions.create(**asked, logprobs=True, top_logprobs=3)
    expect("chat", chat.choices[0].message.role == "assistant" and len(chat.choices[0].logprobs.content) == chat.usage.completion_tokens)
    pieces = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    streamed = "".join(p.choices[0].delta.content or "" for p in pieces if p.choices)
    expect("stream equals whole", streamed == chat.choices[0].message.content, repr(streamed))
    expect("one id, one end, usage last", len({p.id for p in pieces}) == 1 and sum(bool(p.choices and p.choices[0].finish_reason) for p in pieces) == 1
           and pieces[-1].usage.total_tokens == chat.usage.total_tokens)
    several = client.chat.completions.create(**{**asked, "temperature": 1.0}, n=3, seed=5)
    again = client.chat.completions.create(**{**asked, "temperature": 1.0}, n=3, seed=5)
    expect("n and seed", [c.message.content for c in several.choices] == [c.message.content for c in again.choices] and len(several.choices) == 3)
    for name, error, call in [
            ("unknown model", openai.NotFoundError, lambda: client.completions.create(model="nothing", prompt="a")),
            ("too long", openai.BadRequestError, lambda: client.completions.create(model="served", prompt="a", max_tokens=10**8)),
            ("schema that cannot be honoured", openai.BadRequestError, lambda: client.chat.completions.create(**asked, response_format={"type": "json_schema", "json_schema": {
                "name": "bad", "schema": {"type": "array", "uniqueItems": True}}})),
            ("wrong key", openai.AuthenticationError, lambda: openai.OpenAI(base_url=url + "/v1", api_key="wrong").models.list()),
            ("no embeddings", openai.BadRequestError, lambda: client.embeddings.create(model="served", input="a"))]:
        try:
            call()
            expect(name, False, "no error")
        except error as caught:
            expect(name, bool(caught.body and caught.body["message"]), str(caught)[:100])
    with client.chat.completions.create(**{**asked, "max_completion_tokens": 200}, stream=True) as stream:
        next(iter(stream))  # and leaves
    expect("answers after a stream was left", client.chat.completions.create(**asked).choices[0].message.content == chat.choices[0].message.content)


def classes():
    """What people ask for as classes of pydantic."""
    import enum
    from typing import List, Optional, Union

    import pydantic

    class Colour(str, enum.Enum):
        red, green = "red", "green"

    class Place(pydantic.BaseModel):
        city: str = pydantic.Field(max_length=20)
        zip: Optional[str] = pydantic.Field(pattern="^[0-9]{5}$")

    class Person(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=20)
        age: int = pydantic.Field(ge=0, le=150)
        colour: Colour
        tags: List[Union[int, bool]] = pydantic.Field(max_length=3)
        place: Place

    return Person


def openai_structured():
    import openai

    client = openai.OpenAI(base_url=url + "/v1")
    Person = classes()
    asked = dict(model="served", messages=[{"role": "user", "content": "Who barked?"}], max_completion_tokens=600, temperature=1.5)
    parsed = [client.chat.completions.parse(**asked, seed=seed, response_format=Person).choices[0].message.parsed for seed in range(4)]
    expect("parse of a class", all(isinstance(p, Person) for p in parsed), repr(parsed[0]))
    with client.chat.completions.stream(**asked, seed=0, response_format=Person) as stream:
        for _ in stream: pass
        expect("parse of a stream", stream.get_final_completion().choices[0].message.parsed == parsed[0])
    some = client.chat.completions.create(**{**asked, "temperature": 0}, response_format={"type": "json_object"}).choices[0]
    expect("json_object", some.message.content.lstrip().startswith("{") and (some.finish_reason == "length" or isinstance(json.loads(some.message.content), dict)), some.finish_reason)
    for form, good in [({"choice": ["yes", "no"]}, lambda t: t in ("yes", "no")), ({"regex": "[0-9]{4}-[0-9]{2}"}, lambda t: len(t) == 7 and t[4] == "-"),
                       ({"grammar": 'root ::= "a" [bc]{2}'}, lambda t: t[0] == "a" and len(t) == 3)]:
        text = client.chat.completions.create(**asked, extra_body={"structured_outputs": form}).choices[0].message.content
        expect(f"structured_outputs {form}", good(text), repr(text))
    try:
        client.chat.completions.parse(**{**asked, "max_completion_tokens": 4}, response_format=Person)
        expect("parse of an answer that is cut", False, "no error")
    except openai.LengthFinishReasonError:
        expect("parse of an answer that is cut", True)

    if not knows_tools: return print("SKIPPED tools: the chat template knows none")
    tool = openai.pydantic_function_tool(Person, name="remember", description="Remembers a person")
    other = {"type": "function", "function": {"name": "forget", "strict": True, "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}
    called = client.chat.completions.parse(**asked, seed=1, tools=[tool, other], tool_choice={"type": "function", "function": {"name": "remember"}}).choices[0]
    [call] = called.message.tool_calls
    expect("a named tool", call.function.name == "remember" and isinstance(call.function.parsed_arguments, Person) and called.finish_reason == "tool_calls", call.function.arguments)
    required = client.chat.completions.create(**asked, seed=2, tools=[tool, other], tool_choice="required", parallel_tool_calls=False).choices[0].message
    expect("a required tool", len(required.tool_calls) == 1 and required.tool_calls[0].function.name in ("remember", "forget") and required.content is None)
    with client.chat.completions.stream(**asked, seed=1, tools=[tool, other], tool_choice={"type": "function", "function": {"name": "remember"}}) as stream:
        for _ in stream: pass
        [streamed] = stream.get_final_completion().choices[0].message.tool_calls
        expect("a named tool, streamed", streamed.function.parsed_arguments == call.function.parsed_arguments)
    turns = [*asked["messages"], required.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": required.tool_calls[0].id, "content": "done"}]
    after = client.chat.completions.create(**{**asked, "messages": turns, "max_completion_tokens": 8}, tools=[tool, other]).choices[0]
    expect("an answer after a call", after.finish_reason in ("stop", "length", "tool_calls"))


def anthropic():
    import anthropic as lib

    client = lib.Anthropic(base_url=url, api_key="a-key-for-tests", max_retries=0)
    asked = dict(model="served", max_tokens=16, extra_body={"temperature": 0}, system="Be brief.", messages=[{"role": "user", "content": "What barked?"}])
    whole = client.messages.create(**asked)
    expect("anthropic: messages", whole.content[0].type == "text" and whole.usage.output_tokens <= 16, repr(whole.content[0].text))
    with client.messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        expect("anthropic: a stream equals the whole", text == whole.content[0].text and stream.get_final_message().stop_reason == whole.stop_reason)
    expect("anthropic: tokens", client.messages.count_tokens(**{k: asked[k] for k in ("model", "system", "messages")}).input_tokens == whole.usage.input_tokens)
    begun = client.messages.create(**{**asked, "messages": [*asked["messages"], {"role": "assistant", "content": "The dog"}]})
    expect("anthropic: an answer that is begun", begun.usage.input_tokens > whole.usage.input_tokens, repr(begun.content[0].text))
    stop = whole.content[0].text.split()[1]
    ended = client.messages.create(**asked, stop_sequences=[stop])
    expect("anthropic: a stop sequence", ended.stop_reason == "stop_sequence" and ended.stop_sequence == stop)
    try:
        client.messages.create(**{**asked, "model": "nothing"})
        expect("anthropic: unknown model", False, "no error")
    except lib.NotFoundError as caught:
        expect("anthropic: unknown model", "no model 'nothing'" in str(caught), str(caught)[:100])
    if not knows_tools: return print("SKIPPED tools: the chat template knows none")
    tools = [{"name": "remember", "description": "Remembers", "input_schema": classes().model_json_schema()}]
    asked.update(max_tokens=600, extra_body={"temperature": 1.0})
    called = client.messages.create(**asked, tools=tools, tool_choice={"type": "any"})
    use = called.content[-1]
    expect("anthropic: a tool", called.stop_reason == "tool_use" and use.name == "remember" and classes().model_validate(use.input) is not None, repr(use.input))
    with client.messages.stream(**asked, tools=tools, tool_choice={"type": "tool", "name": "remember"}) as stream:
        final = stream.get_final_message()
        expect("anthropic: a tool, streamed", final.content[-1].type == "tool_use" and classes().model_validate(final.content[-1].input) is not None)
    turns = [*asked["messages"], {"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in called.content]},
             {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "done"}]}]
    after = client.messages.create(**{**asked, "messages": turns, "max_tokens": 8}, tools=tools)
    expect("anthropic: an answer after a call", after.stop_reason in ("end_turn", "max_tokens", "tool_use"))


def langchain():
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model="served", base_url=url + "/v1", temperature=0, max_tokens=12)
    whole = chat.invoke("What barked?").content
    expect("langchain", "".join(p.content for p in chat.stream("What barked?")) == whole, repr(whole))
    Person = classes()
    longer = ChatOpenAI(model="served", base_url=url + "/v1", temperature=1.5, max_tokens=600, seed=3)
    for method in ("json_schema", *(["function_calling"] if knows_tools else [])):
        person = longer.with_structured_output(Person, method=method).invoke("Who barked?")
        expect(f"langchain: structured output by {method}", isinstance(person, Person), repr(person))


def litellm():
    import litellm as lite

    reply = lite.completion(model="openai/served", api_base=url + "/v1", api_key="a-key-for-tests", temperature=0, max_tokens=12,
                            messages=[{"role": "user", "content": "What barked?"}])
    expect("litellm", bool(reply.choices[0].message.content), repr(reply.choices[0].message.content))


def lm_eval():
    """Tasks of all kinds of requests: lm-eval through the server, as texts and as chats, has every digit of `stoa eval run` on the model's files; beside transformers, answers and
    greedy flags are equal and log-likelihoods as near to those of transformers in fp64 as those of transformers in fp32 are."""
    lm = os.environ["LM_EVAL"]
    (work / "task.jsonl").write_text("".join(json.dumps({"q": q, "choices": c, "gold": 0}) + "\n" for q, c in [
        ("The sun rose over the", ["sea", "hill"]), ("A dog", ["barked", "rose"]), ("The night was", ["long", "calm"]), ("The wind was", ["calm", "sea"])]))
    kinds = {"pick": 'output_type: multiple_choice\ndoc_to_text: "{{q}}"\ndoc_to_choice: choices\ndoc_to_target: gold\nmetric_list: [{metric: acc}]\n',
             "read": 'output_type: loglikelihood_rolling\ndoc_to_text: ""\ndoc_to_target: "{{q}} {{choices[0]}}"\nmetric_list: [{metric: byte_perplexity}]\n',
             "tell": 'output_type: generate_until\ndoc_to_text: "{{q}}"\ndoc_to_target: "{{choices[0]}}"\nmetric_list: [{metric: exact_match}]\n'
                     'generation_kwargs: {until: ["\\n"], max_gen_toks: 12}\n'}
    for name, keys in kinds.items():
        (work / f"{name}.yaml").write_text(f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {work}/task.jsonl}}}}\ntest_split: test\n{keys}")
    config, rules = (json.loads((pathlib.Path(model) / f"{name}.json").read_text()) for name in ("tokenizer_config", "tokenizer"))
    adds_bos = config.get("add_bos_token", "TemplateProcessing" in json.dumps(rules.get("post_processor")))

    def answers(name, tasks, command):
        """Of each task, in order; none if the program failed."""
        out = work / name
        run = subprocess.run([*command, "--tasks", ",".join(tasks), "--include_path", str(work), "--log_samples", "--output_path", str(out)], capture_output=True, text=True,
                             env={**os.environ, "HF_HUB_OFFLINE": "1"})
        samples = {kind: sorted(out.rglob(f"samples_{kind}_*.jsonl")) for kind in tasks}
        good = run.returncode == 0 and all(samples.values())
        expect(f"{name} runs", good, "" if good else run.stderr[-500:])
        return {kind: [answer for line in files[0].read_text().splitlines() for answer in json.loads(line)["resps"]] for kind, files in samples.items()} if good else None

    def harness(kind, arguments, *more):
        return [lm, "run", "--model", kind, "--model_args", arguments, "--batch_size", "2", *more]

    files = [program, "eval", "run", model, "--dtype", "fp32"]
    reached = f"model=served,num_concurrent=4,max_retries=1,base_url={url}/v1"  # without a retry
    served = answers("lm-eval local-completions", kinds, harness(
        "local-completions", f"{reached}/completions,tokenizer={model},tokenizer_backend=huggingface,max_length=128,add_bos_token={adds_bos}"))
    in_files = answers("stoa eval run", kinds, files)
    expect("lm-eval: every digit of the model in files", served is not None and served == in_files, "" if served == in_files else f"{served}\n{in_files}")
    chats = answers("lm-eval local-chat-completions", ["tell"], harness("local-chat-completions", f"{reached}/chat/completions", "--apply_chat_template"))
    chats_in_files = answers("stoa eval run with chats", ["tell"], [*files, "--apply_chat_template"])
    expect("lm-eval: chats of the model in files", chats is not None and chats == chats_in_files, repr(chats))
    fp32, fp64 = (answers(f"lm-eval hf {dtype}", kinds, harness("hf", f"pretrained={model},dtype={dtype},max_length=126", "--device", "cpu")) for dtype in ("float32", "float64"))
    if None in (served, fp32, fp64): return
    expect("lm-eval: answers equal those of transformers", fp32["tell"] == served["tell"], served["tell"])
    pairs = {name: [r[0] if isinstance(r[0], list) else [r[0], ""] for kind in ("pick", "read") for r in of[kind]] for name, of in [("served", served), ("fp32", fp32), ("fp64", fp64)]}
    expect("lm-eval: greedy flags equal those of transformers", [p[1] for p in pairs["served"]] == [p[1] for p in pairs["fp32"]])
    far = {name: max(abs(float(a[0]) - float(b[0])) for a, b in zip(pairs[name], pairs["fp64"])) for name in ("served", "fp32")}
    expect("lm-eval: log-likelihoods within rounding of transformers' in fp64", far["served"] <= max(2 * far["fp32"], 1e-5), f"{far['served']:.2e}, transformers' own in fp32 {far['fp32']:.2e}")


try:
    for test in (openai_python, openai_structured, anthropic, langchain, litellm, *([lm_eval] if os.environ.get("LM_EVAL") else [])):
        try:
            test()
        except ModuleNotFoundError as missing:
            print("SKIPPED", test.__name__, missing)
        except Exception as error:  # the others are still tried
            expect(test.__name__, False, repr(error)[:500])
finally:
    server.terminate()
    expect("ends with status 0", server.wait(90) == 0)
sys.exit(bool(failures))
