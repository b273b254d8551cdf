"""Quire: attention kernels for hybrid language models.

Tensors are NumPy arrays (bfloat16 by ml_dtypes), PyTorch tensors on the CPU, or anything else
with `__dlpack__` or a buffer. Nothing is copied on the way in or out, and Python's lock is
released while the library computes.
"""

from quire.batch import Batch, Step
from quire.buffer import Buffer
from quire.calls import (
    causal_conv,
    linear_attention,
    linear_attention_replay,
    merge_attention,
    paged_attention,
    paged_decode,
)
from quire.device import (
    Adapter,
    Device,
    DeviceFacts,
    Workspace,
    WorkspaceCounters,
    default_device,
    device_names,
    version,
    webgpu_adapters,
)
from quire.errors import (
    BadAlias,
    BadAttribute,
    BadManifest,
    BadPresence,
    BadRank,
    BadRequest,
    BadShape,
    BadType,
    BadValue,
    DeviceError,
    Error,
    FileError,
    Internal,
    InvalidArgument,
    Limit,
    NotFound,
    OutOfMemory,
    Unsupported,
)
from quire.explanation import Explanation, explain, render
from quire.operator import Attribute, Finding, Operator, Slot, lint, operators
from quire.plan import BoundCall, Plan
from quire.pools import (
    BlockPool,
    CacheStatistics,
    CacheTensor,
    PoolStatistics,
    StatePool,
)
from quire.request import Form
from quire.sequence import Sequence
from quire.serving import Cache
from quire.shared_prefix import shared_prefix_attention

__version__ = version()

__all__ = [
    "Adapter",
    "Attribute",
    "BadAlias",
    "BadAttribute",
    "BadManifest",
    "BadPresence",
    "BadRank",
    "BadRequest",
    "BadShape",
    "BadType",
    "BadValue",
    "Batch",
    "BlockPool",
    "BoundCall",
    "Buffer",
    "Cache",
    "CacheStatistics",
    "CacheTensor",
    "Device",
    "DeviceError",
    "DeviceFacts",
    "Error",
    "Explanation",
    "FileError",
    "Finding",
    "Form",
    "Internal",
    "InvalidArgument",
    "Limit",
    "NotFound",
    "Operator",
    "OutOfMemory",
    "Plan",
    "PoolStatistics",
    "Sequence",
    "Slot",
    "StatePool",
    "Step",
    "Unsupported",
    "Workspace",
    "WorkspaceCounters",
    "causal_conv",
    "default_device",
    "device_names",
    "explain",
    "lint",
    "linear_attention",
    "linear_attention_replay",
    "merge_attention",
    "operators",
    "paged_attention",
    "paged_decode",
    "render",
    "shared_prefix_attention",
    "version",
    "webgpu_adapters",
]
