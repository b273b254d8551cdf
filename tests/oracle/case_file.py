"""Case files: one call of one operator in a safetensors file, with the expected outputs."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oracle.tensors import STORAGE, Tensor

PREFIX = "expect."


@dataclass
class Case:
    op: str
    attributes: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Tensor] = field(default_factory=dict)
    expect: dict[str, Tensor] = field(default_factory=dict)
    tolerance: dict[str, dict[str, float]] = field(default_factory=dict)
    output_dtypes: dict[str, str] = field(default_factory=dict)
    outputs: list[str] | None = None
    error: str | None = None
    note: str = ""

    def metadata(self) -> dict[str, str]:
        out = {"op": self.op, "attributes": json.dumps(self.attributes)}
        if self.output_dtypes:
            out["output_dtypes"] = json.dumps(self.output_dtypes)
        if self.tolerance:
            out["tolerance"] = json.dumps(self.tolerance)
        if self.outputs is not None:
            out["outputs"] = json.dumps(self.outputs)
        if self.error:
            out["error"] = self.error
        if self.note:
            out["note"] = self.note
        return out


def write_case(path: Path, case: Case) -> None:
    tensors = dict(case.inputs)
    tensors.update({PREFIX + name: tensor for name, tensor in case.expect.items()})
    # Wide elements first keep every tensor aligned to its element size without gaps.
    order = sorted(tensors, key=lambda name: (-STORAGE[tensors[name].dtype].itemsize, name))
    header: dict[str, object] = {"__metadata__": case.metadata()}
    offset = 0
    for name in order:
        tensor = tensors[name]
        end = offset + tensor.data.nbytes
        header[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for name in order:
            file.write(np.ascontiguousarray(tensors[name].data).tobytes())


def read_tensors(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    raw = path.read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    tensors: dict[str, Tensor] = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = np.frombuffer(raw[8 + length + begin : 8 + length + end], STORAGE[entry["dtype"]])
        tensors[name] = Tensor(entry["dtype"], data.reshape(entry["shape"]).copy())
    return metadata, tensors


def read_case(path: Path) -> Case:
    metadata, tensors = read_tensors(path)
    case = Case(op=metadata["op"], attributes=json.loads(metadata.get("attributes", "{}")))
    case.tolerance = json.loads(metadata.get("tolerance", "{}"))
    case.output_dtypes = json.loads(metadata.get("output_dtypes", "{}"))
    case.outputs = json.loads(metadata["outputs"]) if "outputs" in metadata else None
    case.error = metadata.get("error")
    case.note = metadata.get("note", "")
    for name, tensor in tensors.items():
        if name.startswith(PREFIX):
            case.expect[name.removeprefix(PREFIX)] = tensor
        else:
            case.inputs[name] = tensor
    return case
