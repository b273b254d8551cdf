# Generated when the package is built; see generate_binding.py.
from typing import Any

ffi: Any
