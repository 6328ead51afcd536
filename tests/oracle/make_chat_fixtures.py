#!/usr/bin/env python3
"""Writes tests/fixtures/chat/templates.json: chat templates, messages, and the text that transformers renders from them.

Needs transformers and jinja2. The templates are written in the style of the model families named; `forms` are small
templates, one per feature of the language.
"""
import datetime
import json
import pathlib

from transformers.utils.chat_template_utils import _compile_jinja_template

NOW = datetime.datetime(2024, 7, 26, 9, 5, 3)

CHATML = """{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

LLAMA2 = """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"""

LLAMA3 = """{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""

LLAMA31 = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- This block extracts the system message, so we can slot it into the right place. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}

{#- System message #}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {{- "You have access to the following functions.\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}

{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("Cannot put tools in the first user message when there's no first user message!") }}
{%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' -}}
    {{- "Given the following functions, answer with JSON.\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}

{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

MISTRAL = """{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token + ' ' }}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"""

MISTRAL_NEMO = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}

{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, conversation roles must alternate user/assistant/user/assistant/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS][" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST]" + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST]" + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- message["content"] + eos_token}}
    {%- endif %}
{%- endfor %}
"""

QWEN2 = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

QWEN25 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are a helpful assistant.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

QWEN3 = """{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"""

GEMMA3 = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""

PHI3 = """{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'user' %}{{'<|user|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>
' + message['content'] + '<|end|>
'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %}"""

GPT_OSS = """{#- Roles, channels and tools as in the harmony format. #}
{%- macro type_of(schema, nullable=false) -%}
    {%- if schema.type == "array" -%}
        {%- set inner = type_of(schema["items"]) if schema["items"] else "any" -%}
        {{- inner + "[]" if inner|length < 40 else "any[]" }}
    {%- elif schema.type is iterable and schema.type is not string and schema.type is not mapping -%}
        {{- schema.type | join(" | ") }}
    {%- elif schema.type == "object" and schema.properties -%}
        {{- "{" }}
        {%- for name, inner in schema.properties.items() -%}
            {{- name }}{{ "" if name in (schema.required or []) else "?" }}: {{ type_of(inner) }}
            {%- if not loop.last -%}, {% endif -%}
        {%- endfor -%}
        {{- "}" }}
    {%- elif schema.enum -%}
        {{- '"' + schema.enum|join('" | "') + '"' -}}
    {%- elif schema.type in ["number", "integer"] -%}
        number
    {%- else -%}
        {{- schema.type or "any" }}
    {%- endif -%}
    {%- if nullable or schema.nullable %}{{ " | null" }}{% endif -%}
{%- endmacro -%}
{%- macro system_message() -%}
    {%- if identity is not defined %}
        {%- set identity = "You are a language model." %}
    {%- endif %}
    {{- identity + "\\nCurrent date: " + strftime_now("%Y-%m-%d") + "\\n\\n" }}
    {{- "Reasoning: " + (reasoning_effort if reasoning_effort is defined else "medium") + "\\n\\n" }}
    {{- "# Valid channels: analysis, commentary, final." }}
    {%- if tools -%}
        {{- "\\nCalls go to the commentary channel." }}
    {%- endif -%}
{%- endmacro -%}
{{- "<|start|>system<|message|>" }}{{ system_message() }}{{ "<|end|>" }}
{%- if messages[0].role == "developer" or messages[0].role == "system" %}
    {%- set instructions = messages[0].content %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set instructions = "" %}
    {%- set rest = messages %}
{%- endif %}
{%- if instructions or tools %}
    {{- "<|start|>developer<|message|>" }}
    {%- if instructions %}
        {{- "# Instructions\\n\\n" + instructions }}
    {%- endif %}
    {%- if tools -%}
        {{- "\\n\\n# Tools\\n\\nnamespace functions {\\n\\n" }}
        {%- for tool in tools %}
            {%- set tool = tool.function %}
            {{- "// " + tool.description + "\\ntype " + tool.name + " = (_: " + type_of(tool.parameters) + ") => any;\\n\\n" }}
        {%- endfor %}
        {{- "}" }}
    {%- endif -%}
    {{- "<|end|>" }}
{%- endif %}
{%- set last_call = namespace(name=none) %}
{%- for message in rest -%}
    {%- if message.role == 'assistant' -%}
        {%- if "<|channel|>" in (message.content or "") %}
            {{- raise_exception("content holds <|channel|>") }}
        {%- endif %}
        {%- if "tool_calls" in message %}
            {%- set later = namespace(final=false) %}
            {%- for other in rest[loop.index:] %}
                {%- if other.role == 'assistant' and "tool_calls" not in other %}
                    {%- set later.final = true %}
                {%- endif %}
            {%- endfor %}
            {%- set call = message.tool_calls[0] %}
            {%- if call.function %}
                {%- set call = call.function %}
            {%- endif %}
            {%- if message.content and not later.final %}
                {{- "<|start|>assistant<|channel|>analysis<|message|>" + message.content + "<|end|>" }}
            {%- endif %}
            {{- "<|start|>assistant to=functions." + call.name + "<|channel|>commentary json<|message|>" }}
            {{- call.arguments|tojson }}{{ "<|call|>" }}
            {%- set last_call.name = call.name %}
        {%- else %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content }}
            {{- "<|return|>" if loop.last and not add_generation_prompt else "<|end|>" }}
            {%- set last_call.name = none %}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last_call.name is none %}
            {{- raise_exception("a tool message without a call") }}
        {%- endif %}
        {{- "<|start|>functions." + last_call.name + " to=assistant<|channel|>commentary<|message|>" + message.content|tojson + "<|end|>" }}
    {%- else -%}
        {{- "<|start|>" + message.role + "<|message|>" + message.content + "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|start|>assistant
{%- endif -%}"""
MACROS = """{%- macro render(value, level=0, mark='*') %}
{%- if value is mapping %}
{%- for k, v in value|items %}
{{ '  ' * level }}{{ mark }} {{ k }}: {{ render(v, level + 1) }}
{%- endfor %}
{%- elif value is sequence and value is not string %}{{ value | join('/') }}
{%- else %}{{ value }}{% endif %}
{%- endmacro %}
{%- for m in messages %}
[{{ m.role }}] {{ m.content }}{% if loop.previtem is defined %} after {{ loop.previtem.role }}{% endif %}{% if loop.nextitem is defined %} before {{ loop.nextitem.role }}{% endif %}

{% endfor %}
{{ render({'a': 1, 'b': {'c': [1, 2.5, none], 'd': true}}, mark='-') }}
"""

FAMILIES = dict(chatml=CHATML, llama2=LLAMA2, llama3=LLAMA3, llama31=LLAMA31, mistral=MISTRAL, mistral_nemo=MISTRAL_NEMO, qwen2=QWEN2,
                qwen25=QWEN25, qwen3=QWEN3, gemma=GEMMA, gemma3=GEMMA3, phi3=PHI3, macros=MACROS, gpt_oss=GPT_OSS)

u = lambda text: {"role": "user", "content": text}
a = lambda text: {"role": "assistant", "content": text}
s = lambda text: {"role": "system", "content": text}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Gets the \"weather\" <now> & 'later'",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1.0}}, "required": ["city"]}}}
SEARCH = {"type": "function", "function": {"name": "search", "description": "Finds", "parameters": {"type": "object", "properties": {
    "terms": {"type": "array", "items": {"type": "string"}}, "kind": {"type": "string", "enum": ["page", "image"]}, "limit": {"type":
    ["integer", "null"]}, "area": {"type": "object", "properties": {"lat": {"type": "number"}, "name": {"type": "string", "nullable": True}},
    "required": ["lat"]}, "rest": {}}, "required": ["terms", "area"]}}}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 2}}}]}

CONVERSATIONS = {
    "one": [u("Hello, who are you?")],
    "three": [u("  Hi there \n"), a("Hello! \u00a0"), u("日本語 and 😀 — \"quoted\" {{ braces }} {% x %}")],
    "system": [s(" You are terse.\n"), u("2+2?"), a(" 4 "), u("And 3+3?")],
    "thinking": [u("a"), a("<think>\nhm\n\n</think>\n\nb"), u("c"), a("<think>\nso\n</think>\n\nd")],
    "tools": [u("Weather?"), CALL, {"role": "tool", "content": "{\"t\": 20}"}, a("20 degrees")],
    "wrong order": [a("I begin"), u("no")],
    "parts": [u([{"type": "text", "text": " look "}, {"type": "image"}])],
}

FORMS = r"""
{{ 1 + 2 * 3 - 4 // 3 % 5 }} {{ 7 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 1e20 }} {{ 0.1 + 0.2 }} {{ 100000000000000000.0 }} {{ 1.5e-7 }} {{ 3.0 }}
===
{{ 'a' ~ 1 ~ none ~ true ~ [1, 'x', "it's", 'q"q'] ~ {'k': 'v', 'l': [1.0]} ~ (1,) ~ () }}
===
{{ -2 ** 2 }} {{ not true or true }} {{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'b' in 'abc' }} {{ 'z' not in ['a', 'b'] }} {{ 1 == 1.0 == true }}
===
{{ 'abc'[1] }}|{{ 'abc'[-1] }}|{{ 'abc'[9] }}|{{ 'héllo'[1:3] }}|{{ 'abcdef'[::-2] }}|{{ [1,2,3,4][1:] }}|{{ [1,2,3][-2:] }}|{{ [1,2,3][:-1] }}|{{ 'abc'[5:] }}|{{ [1,2,3][::-1] }}|{{ 'abcdef'[4:1:-1] }}
===
{{ ' \t x y\u00a0'|trim }}|{{ 'xxaxx'|trim('x') }}|{{ 'xyaxy'.strip('xy') }}|{{ 'aXa'.lstrip('a') }}|{{ 'aXa'.rstrip('a') }}
===
{{ 'a,b,,c'.split(',') }} {{ ' a  b c '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.rsplit(' ', 1) }} {{ 'a\nb\r\nc'.splitlines() }} {{ 'abc'.partition('b') }}
===
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abcabc'.replace('b', 'X') }} {{ 'abcabc'.replace('b', 'X', 1) }} {{ 'aa'|replace('a', 'bb') }} {{ 'abc'.find('c') }} {{ 'ß é'.upper() if false else 'É'.lower() }} {{ 'hello world'.title() }} {{ 'hELLO'.capitalize() }} {{ 'a-b'.count('-') }}
===
{{ {'a': 1, 'b': [1, {'c': none}], 'é': "q\"\\\n\t/<>&'"} | tojson }} {{ [] | tojson }} {{ {} | tojson(indent=2) }} {{ [1, [2, {'a': true}]] | tojson(indent=2) }} {{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }} {{ {'b': [1, 2]} | tojson(separators=(',', ':')) }} {{ 'é\u0001' | tojson }} {{ 'é😀' | tojson(ensure_ascii=true) }} {{ 1.0 | tojson }} {{ 1e100 | tojson }}
===
{{ undefined_thing }}|{{ undefined_thing is defined }}|{{ undefined_thing|default('d') }}|{{ ''|default('e', true) }}|{{ none|default('f') }}|{{ undefined_thing|length }}|{% for x in undefined_thing %}x{% else %}none{% endfor %}|{{ not undefined_thing }}|{{ 'x' in undefined_thing }}
===
{% for x in [3, 1, 2] %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ ',' if not loop.last }}{% endfor %}|{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}|{% for x in range(10) if x % 3 == 0 %}{{ x }}{{ loop.revindex0 }}{% endfor %}|{% for c in 'añb' %}[{{ c }}]{% endfor %}|{% for k in {'q': 1} %}{{ k }}{% endfor %}
===
{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% set ns = namespace(x=1, y='a') %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{% if true %}{% set x = 5 %}{% endif %}{{ x }}
===
{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
===
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t %}  block {{ a }} {% endset %}[{{ t }}]{% set t | upper %}up{% endset %}{{ t }}{% filter trim | upper %}  fil {% endfilter %}{% with z = 3, w = 4 %}{{ z + w }}{% endwith %}{{ z is defined }}
===
{% macro m(a, b='B', c=none) %}<{{ a }}{{ b }}{{ c is none }}>{% endmacro %}{{ m(1) }}{{ m(1, c=2) }}{{ m('x', 'y') }}{% set r = m(2) %}{{ r | length }}{{ m }}
===
{{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort(reverse=true) }} {{ [{'n': 2}, {'n': 1}] | sort(attribute='n') | map(attribute='n') | list }} {{ ['a', 'b'] | map('upper') | join('-') }} {{ [1, 2, 3] | select('odd') | list }} {{ [1, none, 2] | reject('none') | list }} {{ [{'r': 'u'}, {'r': 'a'}] | rejectattr('r', 'equalto', 'u') | list }} {{ [{'r': 'u'}, {}] | selectattr('r', 'defined') | list | length }}
===
{{ [1, 2] | first }} {{ [1, 2] | last }} {{ [] | first }} {{ 'abc' | first }} {{ [1, 2, 2] | unique | list }} {{ [1, 2] | sum }} {{ [5, 3] | min }} {{ [5, 3] | max }} {{ 'abc' | reverse }} {{ {'b': 1, 'a': 2} | dictsort }} {{ '3' | int + 1 }} {{ 'x' | int(7) }} {{ '1.5' | float }} {{ 3.7 | int }} {{ -3 | abs }} {{ 2.567 | round(1) }} {{ 12 | string | length }} {{ {'a': 1} | items | list }} {{ 'a b' | wordcount }} {{ 'x\ny' | indent(2) }} {{ 'AbC' | lower }} {{ '<a>' | e }} {{ 'ok' | safe }}
===
{{ 'a' is string }}{{ 1 is number }}{{ 1.0 is float }}{{ 1 is integer }}{{ true is boolean }}{{ {} is mapping }}{{ [] is sequence }}{{ 'a' is iterable }}{{ none is none }}{{ 4 is even }}{{ 4 is divisibleby 2 }}{{ 1 is not none }}{{ true is true }}{{ 1 is true }}{{ 'a' is in 'abc' }}{{ 3 is gt 2 }}{{ range is callable }}{{ 5 is eq 5 and 4 is ne 5 }}{{ x is undefined }}{{ 1 is sameas 1 }}
===
{# a comment #}
  {% if true %}  
    indented
  {% endif %}  
text
	{%- if true %} a {% endif -%}   

 b
  {%+ if true %}keep{% endif +%}
x {# c #}
y
{% raw %}{{ raw }} {% if %}{% endraw %}
  {% raw -%}  r {%- endraw %}
z
===
{{- ' a ' -}}   b   {{- 'c' }}  
  {{ 'd' }}
===
{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d %H:%M:%S %A %j') }}
===
{{ messages[0].content }} {{ messages[0]['missing'] }} {{ messages[0].get('role') }} {{ messages[0].get('no', 'dflt') }} {{ messages[0].keys() | list }} {{ messages | length }} {{ messages[-1].role }} {{ messages[0].items() | list }} {{ 'role' in messages[0] }} {{ messages[5] is defined }}
===
{{ 'x' * 3 }}{{ [0] * 2 }}{{ [1] + [2] }}{{ (1, 2)[0] }}{{ 'a' 'b' }}{{ "\x41\u00e9\n\\" }}{{ 1_000 }}{{ dict(a=1, b=2) }}{{ 'a' if 0 }}{{ (1 if 0 else 2) }}{{ [1, 2,] }}{{ {'a': {'b': 'deep'}}.a.b }}{{ [[1, 2], [3]][0][1] }}{{ 3 if true else 4 if true else 5 }}
===
{% if messages and messages[0].role == 'user' and (not tools) %}yes{% elif false %}no{% else %}never{% endif %}{% generation %}gen{% endgeneration %}
===
{{ true and 'x' }}{{ 0 or 'y' }}{{ none or [] }}{{ '' and 1 }}{{ 1 and 2 or 3 }}{{ not 1 }}{{ not '' }}
===
{{ loop is defined }}{% for x in [1] %}{{ loop is defined }}{% for y in [1, 2] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}{% for x in [] %}{% else %}E{% endfor %}
===
{{ missing.attribute }}
===
{{ raise_exception('told ' ~ 'so') }}
===
{{ 1 + 'a' }}
===
{{ 'a' | nofilter }}
===
{% if %}
===
{{ undefined_thing + 1 }}
===
{{ 1 / 0 }}
===
{% for x in 5 %}{% endfor %}
===
{{ messages.append(1) }}
===
{{ undefined_function() }}
===
{% set x.y = 1 %}
===
{{ 'unclosed }}
===
{% for a, b in [1] %}{% endfor %}
===
{{ [1, 2 }}
"""


def render(template, messages, prompt, variables):
    values = dict(variables, strftime_now=NOW.strftime)
    compiled = _compile_jinja_template(template)
    values.setdefault("tools", None)
    values.setdefault("documents", None)
    return compiled.render(messages=messages, add_generation_prompt=prompt, **values)


cases = []


def case(name, template, messages, prompt, variables):
    entry = dict(name=name, template=template, messages=messages, add_generation_prompt=prompt, variables=variables)
    try:
        entry["text"] = render(template, messages, prompt, variables)
    except Exception as error:
        entry["error"] = type(error).__name__
    cases.append(entry)


for family, template in FAMILIES.items():
    for title, messages in CONVERSATIONS.items():
        for prompt in (True, False):
            variables = dict(bos_token="<s>", eos_token="</s>")
            if title == "tools" and prompt:
                variables["tools"] = [TOOL, SEARCH] if family == "gpt_oss" else [TOOL]
            if title == "thinking" and prompt:
                variables["enable_thinking"] = False
            case(f"{family}: {title}", template, messages, prompt, variables)
for number, form in enumerate(FORMS.strip("\n").split("\n===\n")):
    case(f"form {number}", form, CONVERSATIONS["three"], True, dict(bos_token="<s>", eos_token="</s>"))
    case(f"form {number} with a newline", form + "\n", CONVERSATIONS["three"], True, dict(bos_token="<s>", eos_token="</s>"))

# Templates are stored once.
templates = list(dict.fromkeys(c["template"] for c in cases))
conversations = []
for c in cases:
    c["template"] = templates.index(c["template"])
    if c["messages"] not in conversations:
        conversations.append(c["messages"])
    c["messages"] = conversations.index(c["messages"])
out = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "chat" / "templates.json"
out.parent.mkdir(parents=True, exist_ok=True)
out.write_text(json.dumps(dict(now=list(NOW.timetuple()), templates=templates, conversations=conversations, cases=cases),
                          ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
print(len(cases), "cases,", sum("error" in c for c in cases), "errors")
