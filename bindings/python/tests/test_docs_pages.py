"""What the documentation makes from sources is complete, and what runs its code can fail."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest
from conftest import REPOSITORY

import quire

sys.path.insert(0, str(REPOSITORY / "docs"))
import performance_plots
import reference_pages
import run_code


def test_every_tensor_and_attribute_is_on_the_operators_page():
    page = "\n".join(reference_pages.operators(REPOSITORY))
    for operator in quire.operators():
        section = page.split(f"\n## {operator.name}\n")[1].split("\n## ")[0]
        for name in [slot.name for slot in operator.slots] + [a.name for a in operator.attributes]:
            assert f"`{name}`" in section, (operator.name, name)


def test_every_header_is_on_the_c_page():
    page = "\n".join(reference_pages.c_interface(REPOSITORY))
    for header in (REPOSITORY / "include/quire").glob("*.h"):
        if header.stem not in ("quire", "export"):
            assert f'<a href="../c/{header.stem}_8h.html">' in page
    assert "Typed calls: one function per operator, on top of plans." in page


@pytest.mark.skipif(shutil.which("doxygen") is None, reason="no doxygen")
def test_doxygen_finds_every_function_and_its_words(tmp_path):
    text = (REPOSITORY / "docs/Doxyfile").read_text().replace("build/docs", str(tmp_path))
    subprocess.run(["doxygen", "-"], input=text, text=True, cwd=REPOSITORY, check=True)
    found = (tmp_path / "doxygen.tag").read_text()
    for header in (REPOSITORY / "include/quire").glob("*.h"):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(encoding="utf-8"), flags=re.DOTALL)
        for name in re.findall(r"QUIRE_API [^;(#]*?[ *](quire_\w+)\s*\(", text):
            assert f"<name>{name}</name>" in found, f"{header.name}: {name}"
    page = (tmp_path / "doxygen/c/structquire__paged__decode__args.html").read_text()
    assert "logical to physical page" in page and "attends one new token of each row" in page


def test_every_status_is_on_the_errors_page():
    page = "\n".join(reference_pages.errors(REPOSITORY))
    for name in quire.errors.BY_STATUS:
        assert f"`QUIRE_{name}`" in page
    assert "PA-V7" in page


def test_everything_public_is_on_the_python_page():
    page = "\n".join(reference_pages.python_interface())
    for name in quire.__all__:
        assert f"### {name}\n" in page or f"`quire.{name}`" in page, name


def test_plots(tmp_path):
    pytest.importorskip("matplotlib")
    results, out = tmp_path / "bench/results", tmp_path / "out"
    results.mkdir(parents=True)
    out.mkdir()
    row = {"workload": "W1", "case": "a_case", "dtype": "f32", "median_us": 20.0, "other_cpu": 0.0,
           "memory_limit_us": 10.0, "arithmetic_limit_us": None}  # fmt: skip
    data = {
        "model": "a machine",
        "isa": "avx2",
        "threads": 2,
        "version": "0",
        "measurements": [row],
    }
    (results / "machine.json").write_text(json.dumps(data))
    performance_plots.write_all(tmp_path, out)
    page = (out / "performance.md").read_text()
    assert "| a_case | f32 | 20.0 | 10.0 |" in page and "busy" not in page
    assert (out / "machine-W1.svg").stat().st_size > 1000


PAGE = """
```python
print("one")
print({shown})
```

```output
one
two...
```

<!-- file: a.txt -->
```c
int x;
```

```console
$ cat a.txt
int x;
$ false
```
"""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (PAGE.replace("$ false\n", "").replace("{shown}", "'two and more'"), None),
        (PAGE.replace("{shown}", "'two'"), "false: exit status 1"),
        (PAGE.replace("{shown}", "'three'"), "instead of"),
        (PAGE.replace("{shown}", "1/0"), "ZeroDivisionError"),
        ("```c\nint x;\n```\n", "needs <!-- file"),
        ("```bash\nls\n```\n", "a block of bash"),
        ("```json\n{,}\n```\n", "Expecting"),
        ("<!-- not run: because -->\n```bash\nls\n```\n", None),
        ("<!-- needs: no_such_module -->\n```python\n1/0\n```\n", None),
    ],
)
def test_code_of_pages(tmp_path, monkeypatch, text, fault):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "page.md"
    path.write_text(text)
    found = run_code.Page(path).run()
    assert (found == []) if fault is None else (len(found) == 1 and fault in found[0]), found
