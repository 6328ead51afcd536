#!/usr/bin/env python3
"""Writes tests/fixtures/chat/templates.json: chat templates, messages, and the text that transformers renders from them.

Needs transformers and jinja2. The templates are written in the style of the model families named; `forms` are small
templates, one per feature of the language.
"""
import datetime
import json
import pathlib

from chat_templates import FAMILIES
from transformers.utils.chat_template_utils import _compile_jinja_template

NOW = datetime.datetime(2024, 7, 26, 9, 5, 3)

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
