"""Plots for the performance page, from what `quire bench --json` printed into bench/results/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WORKLOADS = {
    "W1": "Gated delta rule, decode",
    "W2": "Gated delta rule, prefill",
    "W3": "Paged attention, decode",
    "W4": "Paged attention, prefill",
    "W5": "Paged attention, ragged batch",
    "W6": "Paged attention, decode with wide heads",
    "hybrid": "One token through a hybrid model's 18 gated-delta and 6 attention layers",
    "mixed": "A chunk of a prompt and 31 decodes in one call",
    "verify": "Drafted tokens, several at once",
    "models": "Shapes of other models",
    "decode": "Paged attention, decode (WebGPU)",
    "prefill": "Paged attention, prefill (WebGPU)",
    "linear": "Gated delta rule, prefill (WebGPU)",
    "linear_decode": "Gated delta rule, decode (WebGPU)",
}


def dots(figure_path: Path, title: str, rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "quire"
    from matplotlib import pyplot

    labels = [f"{row['case']}\n{kind(row)}" for row in rows]
    figure, axes = pyplot.subplots(figsize=(8, 1.2 + 0.45 * len(rows)))
    places = range(len(rows))
    for y, row in zip(places, rows, strict=True):
        if row.get("limit_us"):
            axes.plot([row["limit_us"], row["median_us"]], [y, y], color="0.8", zorder=1)
    known = [
        (row["limit_us"], y) for y, row in zip(places, rows, strict=True) if row.get("limit_us")
    ]
    if known:
        axes.plot(*zip(*known, strict=True), "k|", markersize=12, label="limit of the machine")
    axes.plot([row["median_us"] for row in rows], list(places), "o", label="median")
    axes.set_yticks(places, labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("microseconds a call (log scale)")
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(figure_path, format="svg", metadata={"Date": None})
    pyplot.close(figure)


def limit(row: dict[str, Any]) -> float | None:
    found = [row[name] for name in ("memory_limit_us", "arithmetic_limit_us") if row.get(name)]
    return max(found) if found else None


def kind(row: dict[str, Any]) -> str:
    """Type, and what else tells rows of a case apart."""
    parts = [row["dtype"], row.get("mode")]
    parts += [None if row.get("subgroups", True) else "no subgroups"]
    parts += ["trusted" if row.get("trusted_shaders") else None]
    return ", ".join(part for part in parts if part)


def place(workload: str) -> int:
    known = list(WORKLOADS)
    return known.index(workload) if workload in known else len(known)


def section(path: Path, folder: Path) -> list[str]:
    data = json.loads(path.read_text(encoding="utf-8"))
    rows = data["measurements"]
    how = f", instruction set {data['isa']}, {data['threads']} threads" if "isa" in data else ""
    lines = [f"## {path.stem}", "", f"{data['model']}{how}, Quire {data['version']}.", ""]
    busy = [row for row in rows if row.get("other_cpu", 0) > 0.1]
    if busy:
        lines += [
            f"{len(busy)} of {len(rows)} figures had no moment without other programs' work.",
            "",
        ]
    for workload in sorted({row["workload"] for row in rows}, key=place):
        mine = [{**row, "limit_us": limit(row)} for row in rows if row["workload"] == workload]
        title = WORKLOADS.get(workload, workload)
        name = f"{path.stem}-{workload}.svg"
        dots(folder / name, title, mine)
        lines += [f"```{{image}} {name}", f":alt: {title}", "```", ""]
        lines += ["| case | type | median us | limit us |", "|---|---|---|---|"]
        for row in mine:
            least = f"{row['limit_us']:.1f}" if row["limit_us"] else ""
            lines.append(f"| {row['case']} | {kind(row)} | {row['median_us']:.1f} | {least} |")
        lines.append("")
    return lines


def write_all(repository: Path, folder: Path) -> None:
    lines = ["# Performance", "", "Plots of `quire bench --json` in `bench/results/`: the median time of one call of the "
             "public interface, checks included, and the least that the machine could need for the bytes "
             "and operations of the case: on a CPU with the same buffers in every call (warm), or with more of "
             "them in turn than the last cache holds (cold). Ratios against other libraries, and what did not help, are in "
             "[Measurements](../measurements.md).", ""]  # fmt: skip
    found = sorted((repository / "bench/results").glob("*.json"))
    for path in found:
        lines += section(path, folder)
    if not found:
        lines += ["There are no results in this tree: make some with "
                  "`quire bench --json > bench/results/NAME.json`.", ""]  # fmt: skip
    (folder / "performance.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
