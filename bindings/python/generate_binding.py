"""Makes quire/_binding.py, what cffi knows about the library, out of the public headers.

usage: generate_binding.py HEADER_FOLDER OUTPUT

The headers are declarations only, so that nothing is written twice: comments, preprocessor lines
and the export mark go away, and cffi reads the rest. DLPack's records are written down here, after
its public specification (version 1.0 of its interface).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from cffi import FFI

HEADERS = (
    "status",
    "tensor",
    "context",
    "device",
    "buffer",
    "plan",
    "webgpu",
    "operators",
    "serving",
)

DLPACK = """
typedef struct { int32_t device_type, device_id; } DLDevice;
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct { DLTensor dl_tensor; void *manager_ctx; void *deleter; } DLManagedTensor;
typedef struct {
  uint32_t major, minor;
  void *manager_ctx;
  void *deleter;
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;
"""


def declarations(text: str) -> str:
    """What a compiler would see of a header, without other headers."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.DOTALL)
    text = re.sub(r"^[ \t]*#.*$", "", text, flags=re.MULTILINE)
    return text.replace("QUIRE_API ", "")


def main() -> None:
    folder, output = Path(sys.argv[1]), Path(sys.argv[2])
    ffi = FFI()
    ffi.set_source("quire._binding", None)
    ffi.cdef(DLPACK)
    for name in HEADERS:
        ffi.cdef(declarations((folder / f"{name}.h").read_text(encoding="utf-8")))
    ffi.emit_python_code(str(output))


if __name__ == "__main__":
    main()
