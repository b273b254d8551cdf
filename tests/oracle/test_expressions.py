"""The expression evaluator against Python's own evaluation of the same text.

Expressions are a part of Python's: its parser says what binds to what, its integers and doubles give the
numbers, its `and`, `or` and choices pass by what they do not need. Only where the language has a rule of
its own (docs/manifest-language.md) a value of `Value` does what that rule says: kinds are never mixed,
integers have 64 bits, a zero divisor is no error, `%` has the sign of the dividend.

Each text is a derived name of one manifest, so that one process evaluates many.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.command_line import quire
from oracle.test_operators import SEED

BATCH = 200
SHAPE = [5, 12, 3]
ATTRIBUTES: dict[str, Any] = {"i": 17, "f": 2.5, "s": "gated", "b": True}
UNDEFINED = ("attrs.u", "shapes.z", "ranks.z")


class Fault(Exception):
    """An evaluation error, by its code."""


class Value:
    """A number, truth value, string, list (a tuple here) or, None, what is undefined."""

    def __init__(self, value: Any) -> None:
        if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
            value = int(value)
        self.value = value

    def __bool__(self) -> bool:
        is_nan = isinstance(self.value, float) and math.isnan(self.value)
        return bool(self.value) and not is_nan

    def __eq__(self, other: object) -> Any:
        assert isinstance(other, Value)
        same_kind = kind(self.value) == kind(other.value)
        return Value(same_kind and self.value == other.value)

    def __ne__(self, other: object) -> Any:
        return Value(not (self == other).value)

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: Value) -> Value:
        return Value(number(self) < number(other))

    def __le__(self, other: Value) -> Value:
        return Value(number(self) <= number(other))

    def __gt__(self, other: Value) -> Value:
        return Value(number(self) > number(other))

    def __ge__(self, other: Value) -> Value:
        return Value(number(self) >= number(other))

    def __add__(self, other: Value) -> Value:
        return exact(self, other, lambda a, b: a + b)

    def __sub__(self, other: Value) -> Value:
        return exact(self, other, lambda a, b: a - b)

    def __mul__(self, other: Value) -> Value:
        return exact(self, other, lambda a, b: a * b)

    def __neg__(self) -> Value:
        return Value(0) - self

    def __truediv__(self, other: Value) -> Value:
        a, b = number(self), number(other)
        if whole(a, b) and b != 0 and a % b == 0:
            return narrowed(a // b)
        return Value(quotient(float(a), float(b)))

    def __floordiv__(self, other: Value) -> Value:
        a, b = number(self), number(other)
        if whole(a, b) and b != 0:
            return narrowed(a // b)
        return Value(rounded(math.floor, quotient(float(a), float(b))))

    def __mod__(self, other: Value) -> Value:
        a, b = number(self), number(other)
        if b == 0 or math.isinf(a):
            return Value(math.nan)
        if whole(a, b):
            return Value(abs(a) % abs(b) * (-1 if a < 0 else 1))
        return Value(math.fmod(float(a), float(b)))


def kind(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return "number"
    return type(value).__name__


def whole(*values: Any) -> bool:
    return all(isinstance(value, int) for value in values)


def number(operand: Value) -> Any:
    """The value of an operand that must be a number."""
    if operand.value is None:
        raise Fault("undefined")
    if kind(operand.value) != "number":
        raise Fault("type")
    return operand.value


def narrowed(value: int) -> Value:
    """An integer result of a quotient: a double where it needs more than 64 bits."""
    if -(2**63) <= value < 2**63:
        return Value(value)
    try:
        return Value(float(value))
    except OverflowError:
        return Value(math.inf if value > 0 else -math.inf)


def exact(left: Value, right: Value, operation: Callable[[Any, Any], Any]) -> Value:
    a, b = number(left), number(right)
    if not whole(a, b):
        return Value(operation(float(a), float(b)))
    result = operation(a, b)
    if not -(2**63) <= result < 2**63:
        raise Fault("overflow")
    return Value(result)


def quotient(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)
    return a / b


def rounded(to: Callable[[float], int], value: Any) -> Any:
    return float(to(value)) if isinstance(value, float) and math.isfinite(value) else value


def argument(operand: Value) -> Value:
    if operand.value is None:
        raise Fault("undefined")
    return operand


def sequence(operand: Value) -> tuple[Value, ...]:
    if not isinstance(argument(operand).value, tuple):
        raise Fault("type")
    return operand.value


# ---- functions ----


def dim(values: Value, index: Value) -> Value:
    argument(values), argument(index)
    items = sequence(values)
    if not whole(index.value) or isinstance(index.value, bool):
        raise Fault("type")
    if not items:
        raise Fault("range")
    return items[index.value % len(items)]


def extreme(choose: Callable[..., Any]) -> Callable[..., Value]:
    def function(*operands: Value) -> Value:
        values = [number(operand) for operand in [argument(operand) for operand in operands]]
        nan = any(isinstance(value, float) and math.isnan(value) for value in values)
        return Value(math.nan if nan else choose(values))

    return function


def ceil_div(left: Value, right: Value) -> Value:
    argument(left), argument(right)
    a, b = number(left), number(right)
    if whole(a, b) and b != 0:
        return narrowed(-(-a // b))
    return Value(rounded(math.ceil, quotient(float(a), float(b))))


def pow2ceil(operand: Value) -> Value:
    value = number(operand)
    if not math.isfinite(value):
        return Value(value)
    return narrowed(1 if value <= 1 else 1 << (math.ceil(value) - 1).bit_length())


def log2ceil(operand: Value) -> Value:
    value = number(operand)
    if not 1 <= value < math.inf:
        raise Fault("range")
    return Value((math.ceil(value) - 1).bit_length())


def numel(operand: Value) -> Value:
    product = Value(1)
    for item in sequence(operand):
        product = product * item
    return product


def same_shape(left: Value, right: Value) -> Value:
    argument(left), argument(right)
    return Value(sequence(left) == sequence(right))


def f16_ok(operand: Value) -> Value:
    return Value(operand.value not in ("float16", "f16"))


def space(**members: Any) -> SimpleNamespace:
    return SimpleNamespace(**{name: Value(value) for name, value in members.items()})


NAMES: dict[str, Any] = {
    "true": Value(True),
    "false": Value(False),
    "attrs": space(**ATTRIBUTES, u=None),
    "shapes": space(x=tuple(Value(size) for size in SHAPE), z=None),
    "ranks": space(x=len(SHAPE), z=None),
    "present": space(x=True, z=False),
    "dim": dim,
    "min": extreme(min),
    "max": extreme(max),
    "floor": lambda operand: Value(rounded(math.floor, number(operand))),
    "ceil": lambda operand: Value(rounded(math.ceil, number(operand))),
    "ceilDiv": ceil_div,
    "pow2ceil": pow2ceil,
    "log2ceil": log2ceil,
    "numel": numel,
    "sameShape": same_shape,
    "f16Ok": f16_ok,
    "constant": Value,
    "elements": lambda *items: Value(tuple(argument(item) for item in items)),
    "negated": lambda operand: Value(not operand),
    "is_defined": lambda operand: Value(operand.value is not None),
}


class Wrapped(ast.NodeTransformer):
    """Constants and lists become values; `not` and `is defined` become calls."""

    @staticmethod
    def call(name: str, arguments: list[ast.expr]) -> ast.expr:
        return ast.Call(ast.Name(name, ast.Load()), arguments, [])

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return self.call("constant", [node])

    def visit_List(self, node: ast.List) -> ast.expr:
        return self.call("elements", [self.visit(item) for item in node.elts])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return self.call("negated", [operand])
        return ast.UnaryOp(node.op, operand)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        left = self.visit(node.left)
        if isinstance(node.ops[0], ast.Is):
            return self.call("is_defined", [left])
        if isinstance(node.ops[0], ast.IsNot):
            return self.call("negated", [self.call("is_defined", [left])])
        return ast.Compare(left, node.ops, [self.visit(node.comparators[0])])


def plain(value: Any) -> Any:
    """As section 9 of the language prints values."""
    if isinstance(value, Value):
        return plain(value.value)
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        names = {math.inf: "Infinity", -math.inf: "-Infinity"}
        return {"number": names.get(value, "NaN")}
    return value


def expected(text: str) -> Any:
    tree = ast.fix_missing_locations(Wrapped().visit(ast.parse(text, mode="eval")))
    try:
        return plain(eval(compile(tree, "expression", "eval"), {"__builtins__": {}}, NAMES))
    except Fault as fault:
        return {"error": str(fault)}


# ---- texts ----

numbers = st.one_of(
    st.integers(0, 20),
    st.sampled_from([63, 64, 65, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1]),
    st.sampled_from(["0.5", "2.0", "1e3", "1e308", "0.1", "5e-324", "9007199254740992.0", "1.5e300"]),
).map(str)
leaves = st.one_of(
    numbers,
    numbers,
    st.sampled_from(["attrs.i", "attrs.f", "ranks.x", "dim(shapes.x, 1)", "shapes.x", "present.x"]),
    st.sampled_from(["true", "false", "[]", "'a'", '"gated"', "attrs.s", "attrs.b", "present.z"]),
    st.sampled_from(UNDEFINED),
)
BINARY = ["+", "-", "*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">=", "and", "or"]
COMPARISONS = set(BINARY[6:12])


def combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    one = st.one_of(inner, inner.map(lambda text: f"({text})"))
    closed = st.one_of(leaves, inner.map(lambda text: f"({text})"))

    def binary(left: str, operator: str, right: str) -> str:
        return f"{left} {operator} {right}"

    def call(name: str, arguments: list[str]) -> str:
        return f"{name}({', '.join(arguments)})"

    return st.one_of(
        st.builds(binary, one, st.sampled_from(BINARY), one),
        st.builds(binary, one, st.sampled_from(BINARY[:6]), one),
        st.builds("not {}".format, one),
        st.builds("-{}".format, closed),
        st.builds("{} if {} else {}".format, one, one, one),
        st.builds("({} is {})".format, st.sampled_from([*UNDEFINED, "attrs.i", "shapes.x"]),
                  st.sampled_from(["defined", "not defined"])),
        st.lists(one, max_size=4).map(lambda items: f"[{', '.join(items)}]"),
        st.builds(call, st.sampled_from(["min", "max"]), st.lists(one, min_size=1, max_size=4)),
        st.builds(call, st.sampled_from(["floor", "ceil", "pow2ceil", "log2ceil", "numel", "f16Ok"]),
                  st.lists(one, min_size=1, max_size=1)),
        st.builds(call, st.sampled_from(["dim", "ceilDiv", "sameShape"]),
                  st.lists(one, min_size=2, max_size=2)),
    )  # fmt: skip


def shared(text: str) -> bool:
    """Whether both parsers take it: Python chains comparisons, the language takes no `not` inside."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, MemoryError, RecursionError):
        return False
    chained = (isinstance(node, ast.Compare) and len(node.ops) > 1 for node in ast.walk(tree))
    return len(text) < 1000 and not any(chained)


texts = st.recursive(leaves, combine, max_leaves=12).filter(shared)


def evaluated(folder: Path, expressions: list[str]) -> list[Any]:
    manifest = {
        "domain": "test", "name": "Probe", "sinceVersion": 1,
        "inputs": {"x": {"dtype": "float32", "rank": 3},
                   "z": {"dtype": "float32", "optional": True}},
        "outputs": {"y": {"dtype": "float32", "shape": "shapes.x"}},
        "attributes": {name: {} for name in [*ATTRIBUTES, "u"]},
        "derive": {f"e{i}": text for i, text in enumerate(expressions)},
        "variants": [{"passes": [{"shader": "t", "bindings": ["x", "y"], "dispatch": {"x": 1}}]}],
    }  # fmt: skip
    request = {"inputs": {"x": {"dtype": "float32", "shape": SHAPE}}, "attributes": ATTRIBUTES}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "request.json").write_text(json.dumps(request))
    result = quire("explain", folder / "manifest.json", "--request", folder / "request.json",
                   "--format", "json")  # fmt: skip
    assert result.returncode == 0, f"{folder}: {result.stderr}{result.stdout}"
    derived = json.loads(result.stdout)["derived"]
    return [derived[f"e{i}"] for i in range(len(expressions))]


def test_expressions(tmp_path: Path) -> None:
    drawn: list[str] = []

    @hypothesis.seed(SEED)
    @settings(max_examples=6 * settings.default.max_examples)
    @given(texts)
    def collect(text: str) -> None:
        drawn.append(text)

    collect()
    print(f"seed {SEED}, {len(drawn)} expressions")
    kinds, problems = set(), []
    for first in range(0, len(drawn), BATCH):
        batch = drawn[first : first + BATCH]
        for text, got in zip(batch, evaluated(tmp_path / str(first), batch), strict=True):
            want = expected(text)
            kinds.add(want["error"] if isinstance(want, dict) and "error" in want else "value")
            if got != want or kind(got) != kind(want):
                problems.append(f"{text!r}: {got}, Python: {want}")
    assert not problems, "\n".join(problems[:10])
    assert kinds == {"value", "type", "undefined", "overflow", "range"}
