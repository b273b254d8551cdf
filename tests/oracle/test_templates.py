"""The template renderer against Jinja2, on what both languages share.

Fixed texts for every statement, and random ones made of marks, white space and texts. Each text is the
template of one pass of a manifest, so that one process renders many.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.command_line import quire
from oracle.test_operators import SEED

jinja2 = pytest.importorskip("jinja2")

CONTEXT: dict[str, Any] = {"n": 3, "half": 0.5, "flag": True, "name": "q", "items": [4, 5, 6]}
NO_DECLARATIONS = "{% set unused = env.wgsl.resourceDeclarations %}\n"  # the line end goes with it
END = "|"  # what a text ends with, so that dropped line ends show

FIXED = [
    "a{{ n }}b",
    "{% if n == 3 %}yes{% else %}no{% endif %}",
    "{% if n < 3 %}a{% elif n == 3 %}b{% else %}c{% endif %}",
    "{% if not flag or n > 2 and half %}x{% endif %}",
    "{% for i in range(n) %}{{ i }},{% endfor %}",
    "{% for i in range(5, 1, -2) %}\n  {{ i }}\n{% endfor %}\n",
    "{% for x in items %}\n{{ loop.index0 }}:{{ x }}{{ ',' if not loop.last }}\n{% endfor %}",
    "{% for i in range(2) %}{% for j in items %}{{ i * j }} {% endfor %};{% endfor %}",
    "{% set v = n * 2 %}{{ v }}{% if flag %}{% set v = v + 1 %}{% endif %}{{ v }}",
    "{% macro m(a, b=2) %}<{{ a }}:{{ b }}>{% endmacro %}{{ m(1) }}{{ m(b=n, a=4) }}",
    "{% macro a(x) %}{{ x }}{% endmacro %}{% macro b(x) %}{{ a(x ~ 1) }}{% endmacro %}{{ b('z') }}",
    "{% raw %}{{ n }}{% if %}{% endraw %}",
    "x{# {{ nothing.at.all }} #}y",
    "{{ items[0] + items[-1] }}{{ 5 in items }}{{ items | length }}{{ items | join('-') }}",
    "{{ name | upper ~ 'X' | lower }}{{ missing | default('d') }}{{ 7 // 2 }}{{ 7 % 4 }}",
    "{{ (1, 2)[0] if false else 'c' }}".replace("(1, 2)", "[1, 2]"),
    "{{ missing is defined }}{{ n is defined }}{{ 'a' ~ n ~ half }}",
    "a \n {%- if flag -%} \n b \n {%- endif -%} \n c",
    "a\n  {% if flag %}  \n b\n\t{% endif %}\n\nc",
    "a\n   {# c #}\nb {{- n -}} \n c\n",
    "{{ '%} }} {#' }}{# '%}' #}{{ \"{{\" }}",
]

pieces = st.sampled_from(
    [
        " ", "  ", "\n", "\n\n", "\t", "x", "y z", "{", "}", "%", "-", "#",
        "{{ n }}", "{{- n }}", "{{ n -}}", "{{- name -}}", "{# c #}", "{#- c -#}", "{# a\nb -#}",
        "{% set v = n %}", "{%- set v = 1 %}", "{% set v = 2 -%}", "{{ v }}",
    ]
)  # fmt: skip
openings = [
    ("{% if flag %}", "{% endif %}"),
    ("{%- if n > 5 %}", "{%- else -%}{% endif %}"),
    ("{% for i in range(2) -%}", "{%- endfor %}"),
    ("{% for i in items %}", "{{ i }}{% endfor -%}"),
    ("{% raw %}", "{%- endraw %}"),
]


def nest(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda marks, parts: marks[0] + "".join(parts) + marks[1],
        st.sampled_from(openings),
        st.lists(inner, max_size=4),
    )


# A `set` in a loop ends with its round in Jinja2, and raw blocks do not nest: such texts are left out.
texts = st.lists(st.recursive(pieces, nest, max_leaves=8), max_size=8).map("".join)


def shared(text: str) -> bool:
    for loop in re.findall(r"\{%-? for .*?endfor", text, re.S):
        if "set v" in loop:
            return False
    # What stands between marks must not become one: "{" and "{{ n }}", "{" and "#".
    return not re.search(r"\{\{\{|\{\{[^ -]|\{#[^ -]|\{%[^ -]|raw.*raw -?%\}.*raw", text, re.S)


def finalize(value: Any) -> Any:
    """Values in the output form of section 11."""
    if isinstance(value, bool):
        return str(value).lower()
    return value


def expected(text: str) -> str:
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, finalize=finalize, autoescape=False
    )
    return environment.from_string(text + END).render(CONTEXT)


def rendered(folder: Path, texts: list[str]) -> list[str]:
    names = {key: json.dumps(value) for key, value in CONTEXT.items()}
    manifest = {
        "domain": "test", "name": "Probe", "sinceVersion": 1,
        "inputs": {"x": {"dtype": "float32", "rank": 1}},
        "outputs": {"y": {"dtype": "float32", "shape": "shapes.x"}},
        "derive": names,
        "variants": [
            {
                "passes": [
                    {"id": f"p{i}", "shader": f"t{i}", "bindings": ["x", "y"], "dispatch": {"x": 1}}
                    for i in range(len(texts))
                ]
            }
        ],
    }  # fmt: skip
    request = {"inputs": {"x": {"dtype": "float32", "shape": [1]}}, "attributes": {}}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "request.json").write_text(json.dumps(request))
    for i, text in enumerate(texts):
        (folder / f"t{i}").write_bytes((NO_DECLARATIONS + text + END).encode())
    result = quire("render", folder / "manifest.json", "--request", folder / "request.json")
    assert result.returncode == 0, f"{folder}: {result.stderr}"
    parts = re.split(r"(?m)^// pass \d+: p\d+\n", result.stdout)
    return [part[:-1] for part in parts[1:]]  # without the line end between passes


def compare(folder: Path, texts: list[str]) -> None:
    got = rendered(folder, texts)
    assert len(got) == len(texts)
    for text, result in zip(texts, got, strict=True):
        assert result == expected(text), repr(text)


def test_fixed(tmp_path: Path) -> None:
    compare(tmp_path, FIXED)


def test_random(tmp_path: Path) -> None:
    drawn: list[str] = []

    @hypothesis.seed(SEED)
    @settings(max_examples=400, database=None)
    @given(texts.filter(shared))
    def collect(text: str) -> None:
        drawn.append(text)

    collect()
    assert len(drawn) >= 300
    print(f"seed {SEED}, {len(drawn)} templates")
    for first in range(0, len(drawn), 200):
        compare(tmp_path / str(first), drawn[first : first + 200])
