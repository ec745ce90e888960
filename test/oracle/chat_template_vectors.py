#!/usr/bin/env python3
"""Makes test/vectors/chat_template.json: templates in the styles of today's models and what Jinja2 renders.

Needs the `jinja2` package (the reference implementation), with the settings chat templates are rendered with everywhere:
trim_blocks, lstrip_blocks, loop controls, and a tojson that keeps non-ASCII text.
"""
import json
import os

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vectors", "chat_template.json")

TEMPLATES = {
    "chatml": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
              "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "default_system": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
                      "You are kind.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
                      "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "headers": """{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start|>system<|end|>\\n\\n" }}
{%- if tools is defined and tools is not none %}{{- "tools" }}{% endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{{- "Today: " + date_string + "\\n" }}
{{- system_message }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or 'tool_calls' in message) %}
        {{- '<|start|>' + message['role'] + '<|end|>\\n\\n'+ message['content'] | trim + '<|eot|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|end|>\\n\\n' }}
{%- endif %}
""",
    "thinking": """{%- set ns = namespace(last=true, index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.last and message.role == "user" and message.content is string and not(message.content.startswith('<r>') and message.content.endswith('</r>')) %}
        {%- set ns.last = false %}
        {%- set ns.index = index %}
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
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.index and (loop.last or (not loop.last and reasoning)) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""",
    "macro": """{%- macro show(m, n=2, sep=', ') -%}
  [{{ m.role|upper }}{{ sep }}{{ n }}{{ sep }}{{ m.content|length }}]
{%- endmacro -%}
{# a comment #}
{% for m in messages if m.role != 'system' %}
  {{ show(m) }}{{ show(m, 3, sep='; ') }}
{% else %}
nobody
{% endfor %}
{{ messages|map(attribute='role')|join('/') }} {{ (messages|selectattr('role', 'equalto', 'user')|list)|length }}
""",
    "values": """{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 1.0 }} {{ 2.5e0 if false else 0.1 + 0.2 }}
{{ true }} {{ none }} {{ [1, 'a', "it's", none, true, 1.5] }} {{ {'a': [1, {}]} }} {{ undefined_name }}|
{{ 'abc'[1] }} {{ 'abcdef'[1:4] }} {{ 'abcdef'[::-2] }} {{ [1,2,3][-1] }} {{ [1,2,3][:2] }} {{ 'é∂'|length }}
{{ 'a b  c'.split() }} {{ 'a,b,,c'.split(',') }} {{ 'x=y=z'.split('=', 1) }} {{ '  x '.strip() ~ '|' ~ 5 ~ none }}
{{ {'b': 1, 'a': 'é"\\n'}|tojson }} {{ [1, [2, {'k': none}]]|tojson(indent=2) }} {{ []|tojson }}
{{ 'x' in 'xyz' and 'q' not in ['a'] or false }} {{ not 1 == 2 }} {{ 3 if 1 > 2 }}| {{ 'a' < 'b' }} {{ 1 in [1.0] }}
{% for k, v in {'x': 1, 'y': 2}.items() %}{{ k }}={{ v }}{{ ',' if not loop.last }}{% endfor %}
{% for i in range(2, 9, 3) %}{{ loop.index }}:{{ i }}:{{ loop.revindex }}:{{ loop.previtem if loop.previtem is defined else '-' }} {% endfor %}
{% set a = 1 %}{% for i in [1, 2] %}{% set a = a + i %}{{ a }}{% endfor %}{{ a }}
{% set b %}block {{ a }}{% endset %}{{ b|upper }} {{ 'abc'|replace('b', 'x') }} {{ undefined_name|default('d') }} {{ ''|default('e', true) }}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
{{ 'Hello World'.lower() | capitalize }} {{ 'hello world' | title }} {{ {'k': 3}.get('k') }} {{ {'k': 3}.get('z', 'no') }} {{ 'abc'.find('c') }}
   {% if true %}
  indented
   {% endif %}
a {%- if true -%}   b   {%- endif -%} c {{- ' d ' -}} e
{{ (1, 2) | join('+') }} {{ ['b','a'] | first }} {{ 5 is odd }} {{ 'x' is string }} {{ {} is mapping }} {{ 4 is number }} {{ '12' | int + 1 }} {{ "q\\"q" }} {{ 'a' 'b' }}
""",
    "raises": "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{{ m.content }}{% endfor %}",
}
CONVERSATIONS = [
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "naïve ∂ 'quote' \"x\" \\n\n"}],
    [{"role": "user", "content": "1"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\n2"}, {"role": "user", "content": "3"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>x</think>b"}],
]


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)
    env.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    env.globals["raise_exception"] = raise_exception
    return env


def main():
    env = environment()
    out = []
    for name, source in TEMPLATES.items():
        template = env.from_string(source)
        for conversation in CONVERSATIONS:
            for prompt in (False, True):
                for extra in ({}, {"enable_thinking": False}):
                    if extra and name != "thinking":
                        continue
                    variables = {"messages": conversation, "add_generation_prompt": prompt, "bos_token": "<s>", **extra}
                    try:
                        text, error = template.render(**variables), None
                    except jinja2.exceptions.TemplateError as why:
                        text, error = None, str(why)
                    out.append({"template": name, "messages": conversation, "add_generation_prompt": prompt, "extra": extra,
                                "text": text, "error": error})
    with open(OUT, "w", encoding="utf-8") as f:
        json.dump({"jinja2_version": jinja2.__version__, "templates": TEMPLATES, "vectors": out}, f, indent=0)
        f.write("\n")


if __name__ == "__main__":
    main()
