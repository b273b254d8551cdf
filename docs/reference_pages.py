"""Pages of the site that are made from sources: operators, errors, the C and the Python interface."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

HEADERS = ("quire", "status", "tensor", "context", "device", "buffer", "plan", "operators",
           "serving", "webgpu")  # fmt: skip
CONTRACTS = {
    "com.microsoft.PagedAttention": "paged_attention",
    "com.microsoft.LinearAttention": "linear_attention",
    "ai.onnx.LinearAttention": "linear_attention",
    "quire.PagedDecode": "paged_decode",
    "quire.MergeAttentionStates": "paged_attention",
    "quire.LinearAttentionReplay": "linear_attention",
    "com.microsoft.CausalConvWithState": "causal_conv",
    "ai.onnx.CausalConvWithState": "causal_conv",
}


def cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def code(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"`{cell(text)}`" if text else ""


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(cell(c) for c in row) + " |" for row in rows] + [""]


# ---- operators ----


def tensor_row(key: str, tensor: dict[str, Any], inputs: dict[str, Any], output: bool) -> list[str]:
    shape = tensor.get("shape") or (f"rank {tensor['rank']}" if "rank" in tensor else "")
    presence = "optional" if tensor.get("optional") else "required"
    if output and key in inputs:
        presence = (
            f"in place of `{inputs[key].get('onnx', key)}`, unless it has a buffer of its own"
        )
    return [code(tensor.get("onnx", key)), code(tensor.get("dtype", "")), code(shape), presence]


def attribute_row(name: str, attribute: dict[str, Any], limits: dict[str, Any]) -> list[str]:
    default = code(json.dumps(attribute["default"])) if "default" in attribute else "required"
    values = ", ".join(code(json.dumps(value)) for value in limits.get("values", []))
    return [code(name), attribute.get("type", ""), default, values, limits.get("rule", "")]


def operator_page(manifest: dict[str, Any], path: str) -> list[str]:
    name = f"{manifest['domain'] or 'ai.onnx'}.{manifest['name']}"
    lines = [f"## {name}", "", f"Since version {manifest['sinceVersion']}; from `{path}`.", ""]
    if name in CONTRACTS:
        lines += [f"The contract in words: [{CONTRACTS[name]}](../{CONTRACTS[name]}.md).", ""]
    inputs = manifest["inputs"]
    for title in ("inputs", "outputs"):
        rows = [
            tensor_row(key, tensor, inputs, title == "outputs")
            for key, tensor in manifest[title].items()
        ]
        lines += [f"**{title.capitalize()}**", ""] + table(["name", "type", "shape", ""], rows)
    types = manifest.get("typeConstraints", {})
    if types:
        rows = [[code(symbol), ", ".join(allowed)] for symbol, allowed in types.items()]
        lines += ["**Types**", ""] + table(["symbol", "one of"], rows)
    attributes = manifest.get("attributes", {})
    if attributes:
        limits = manifest.get("attributeConstraints", {})
        rows = [attribute_row(key, value, limits.get(key, {})) for key, value in attributes.items()]
        lines += ["**Attributes**", ""]
        lines += table(["name", "kind", "default", "one of", "rule"], rows)
    kinds = manifest.get("rules", {})
    if kinds:
        named = ", ".join(f"{kind} {code(rule)}" for kind, rule in kinds.items())
        lines += [f"**Rules** of the tables above: {named}.", ""]
    rules = manifest.get("contract", [])
    if rules:
        rows = [
            [rule.get("rule", ""), rule.get("status", ""), code(rule.get("subject", "")),
             code(rule.get("require", ""))]
            for rule in rules
        ]  # fmt: skip
        lines += ["**Rules**, as the planner evaluates them", ""]
        lines += table(["rule", "status", "subject", "must hold"], rows)
    rows = []
    for variant in manifest.get("variants", []):
        conditions = variant.get("when", [])
        conditions = [conditions] if isinstance(conditions, str) else conditions
        rows.append(
            [
                code(variant["id"]),
                variant.get("requires", {}).get("backend", ""),
                cell(variant.get("priority", 0)),
                " and ".join(code(c) for c in conditions),
            ]
        )
    lines += ["**Variants**", ""] + table(["variant", "backend", "priority", "when"], rows)
    return lines


def operators(repository: Path) -> list[str]:
    lines = ["# Operators", "", "What every built-in operator accepts, from its manifest: the very "
             "data that the planner reads ([the language](../manifest-language.md)).", ""]  # fmt: skip
    for path in sorted(repository.glob("kernels/*/*manifest.json")):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        lines += operator_page(manifest, str(path.relative_to(repository)))
    return lines


# ---- errors ----


def errors(repository: Path) -> list[str]:
    text = (repository / "include/quire/status.h").read_text(encoding="utf-8")
    enum = re.search(r"typedef enum quire_status \{(.*?)\} quire_status;", text, re.DOTALL)[1]
    from quire.errors import BY_STATUS

    rows = []
    for name, number, comment in re.findall(
        r"QUIRE_(\w+) = (\d+),?\s*(?:/\*\s*(.*?)\s*\*/)?", enum, re.DOTALL
    ):
        exception = "" if name == "OK" else f"`quire.{BY_STATUS[name].__name__}`"
        rows.append(
            [f"`QUIRE_{name}`", number, exception, " ".join((comment or "success").split())]
        )
    lines = ["# Errors", "", "Every call returns a status and fills the caller's record; in Python the "
             "status is the exception's class and the message its text. The messages name the rule, the "
             "input and the values, as in `PA-V8: key_cache: dim 2 is 6, kv_num_heads is 8`.", ""]  # fmt: skip
    lines += table(["status", "number", "exception", "meaning"], rows)
    lines += ["The statuses `BAD_ATTRIBUTE` to `BAD_ALIAS` are together *invalid argument* "
              "(`quire_status_is_invalid_argument()`, `quire.InvalidArgument`).", ""]  # fmt: skip
    lines += ["## Rules", "", "The rule ids of messages, by operator, from the manifests. Values that "
              "shapes cannot show (lengths, tables, slots) are checked when a call runs; those rules are "
              "in the operators' contracts.", ""]  # fmt: skip
    found = []
    for path in sorted(repository.glob("kernels/*/*manifest.json")):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        seen: dict[str, set[tuple[str, str]]] = {}
        for rule in manifest.get("contract", []):
            pair = (rule.get("status", ""), rule.get("subject", ""))
            seen.setdefault(rule.get("rule", ""), set()).add(pair)
        name = f"{manifest['domain'] or 'ai.onnx'}.{manifest['name']}"
        for rule, pairs in sorted(seen.items()):
            statuses = ", ".join(sorted({f"`{status}`" for status, _ in pairs}))
            subjects = ", ".join(sorted({f"`{subject}`" for _, subject in pairs if subject}))
            found.append([rule, name, statuses, subjects])
    return lines + table(["rule", "operator", "status", "about"], found)


# ---- the C interface ----


def purpose(header: str) -> str:
    """A header's first paragraph."""
    comment = re.match(r"/\*\s(.*?)\*/", header, re.DOTALL)[1]
    text = "\n".join(re.sub(r"^ \* ?", "", line) for line in comment.splitlines()).strip()
    return " ".join(text.split("\n\n")[0].split())


def c_interface(repository: Path) -> list[str]:
    """What Doxygen makes of the headers is beside this page: see scripts/docs."""
    lines = ["# C interface", "", "From the headers in `include/quire/`; `quire.h` includes them all. "
             "Headers compile alone, as C11 and as C++17. "
             '<a href="../c/globals.html">All names</a>, <a href="../c/annotated.html">all structs</a>.',
             ""]  # fmt: skip
    rows = []
    for name in HEADERS[1:]:
        text = (repository / f"include/quire/{name}.h").read_text(encoding="utf-8")
        rows.append([f'<a href="../c/{name}_8h.html">quire/{name}.h</a>', purpose(text)])
    return lines + table(["header", "what"], rows)


# ---- the Python interface ----


def signature(value: Any) -> str:
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parts, marked = [], False
    for parameter in found.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not marked:
            parts.append("*")
            marked = True
        marked = marked or parameter.kind is parameter.VAR_POSITIONAL
        parts.append(str(parameter).replace("quire.device.", "").replace("typing.", ""))
    # Annotations are kept as texts, which would show in quotes.
    parts = [re.sub(r"^(\*{0,2}\w+): '([^']*)'", r"\1: \2", part) for part in parts]
    joined = ", ".join(part for part in parts if not part.startswith("self"))
    if len(joined) > 80:
        joined = "\n    " + ",\n    ".join(p for p in parts if not p.startswith("self")) + ",\n"
    return f"({joined})"


def entry(title: str, value: Any) -> list[str]:
    lines = ["```python", title + signature(value), "```", ""]
    text = inspect.getdoc(value)
    generated = text and text.startswith(f"{getattr(value, '__name__', '')}(")
    if text and not generated:
        lines += ["```text", text, "```", ""]
    return lines


def python_interface() -> list[str]:
    import quire

    lines = ["# Python interface", "", "Everything that `import quire` offers. `quire.torch` and "
             "`quire.onnxruntime` are modules of their own: [Python](../python.md).", ""]  # fmt: skip
    groups: dict[str, list[str]] = {"Functions": [], "Classes": [], "Exceptions": []}
    for name in sorted(quire.__all__):
        value = getattr(quire, name)
        if isinstance(value, type) and issubclass(value, BaseException):
            groups["Exceptions"].append(name)
        elif isinstance(value, type):
            groups["Classes"].append(name)
        else:
            groups["Functions"].append(name)
    for name in groups["Functions"]:
        if not lines[-1].startswith("## ") and "## Functions" not in lines:
            lines += ["## Functions", ""]
        lines += [f"### {name}", "", *entry(f"quire.{name}", getattr(quire, name))]
    lines += ["## Classes", ""]
    for name in groups["Classes"]:
        value = getattr(quire, name)
        lines += [f"### {name}", "", *entry(f"quire.{name}", value)]
        for member, found in vars(value).items():
            if member.startswith("_"):
                continue
            if isinstance(found, property):
                lines += ["```python", f"{name}.{member}", "```", ""]
                if found.__doc__:
                    lines += ["```text", inspect.cleandoc(found.__doc__), "```", ""]
            elif inspect.isfunction(found) or isinstance(found, (classmethod, staticmethod)):
                lines += entry(f"{name}.{member}", getattr(value, member))
    lines += ["## Exceptions", ""]
    rows = [
        [f"`quire.{name}`", ", ".join(f"`{b.__name__}`" for b in getattr(quire, name).__bases__),
         (inspect.getdoc(getattr(quire, name)) or "").split("\n")[0]
         if getattr(quire, name).__doc__ else ""]
        for name in groups["Exceptions"]
    ]  # fmt: skip
    return lines + table(["exception", "is a", ""], rows)


def write_all(repository: Path, folder: Path) -> None:
    pages = {
        "operators": operators(repository),
        "errors": errors(repository),
        "c-interface": c_interface(repository),
        "python-interface": python_interface(),
    }
    for name, lines in pages.items():
        text = "\n".join(lines) + "\n"
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
