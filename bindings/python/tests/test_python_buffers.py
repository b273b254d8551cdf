"""Memory of devices: on the CPU, and on WebGPU where a library and an adapter are there."""

from __future__ import annotations

import numpy as np
import pytest

import quire


@pytest.fixture(scope="module", params=["cpu", "webgpu"])
def device(request):
    try:
        return quire.Device(request.param)
    except (quire.NotFound, quire.DeviceError) as fault:
        pytest.skip(str(fault))


def buffers(device, paged):
    return {name: device.put(array) for name, array in paged.tensors().items()}


def test_contents_travel(device):
    for array in (np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.zeros((3, 0), np.int32)):
        buffer = device.put(array)
        assert (buffer.shape, buffer.dtype) == (array.shape, array.dtype.name)
        np.testing.assert_array_equal(buffer.numpy(), array)
        buffer.write(array + 1)
        np.testing.assert_array_equal(buffer.numpy(), array + 1)


def test_calls_and_plans(device, paged):
    there = buffers(device, paged)
    want = quire.paged_attention(**paged.arguments())
    found = quire.paged_attention(**there, **paged.attributes, device=device)
    np.testing.assert_allclose(read(found), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(there["key_cache"].numpy(), paged.key_cache)
    plan = quire.Plan("PagedAttention", there, paged.attributes, device=device)
    bound = plan.bind(there)
    np.testing.assert_allclose(read(bound()["output"]), want, rtol=1e-4, atol=1e-5)


def read(value):
    return value.numpy() if isinstance(value, quire.Buffer) else value


def test_what_is_not_there_is_refused(device, paged):
    there = buffers(device, paged)
    if not device.takes_host_memory:
        with pytest.raises(quire.BadRequest, match=r"^query: is in host memory.*device.put"):
            quire.paged_attention(
                **{**there, "query": paged.query}, **paged.attributes, device=device
            )
        plan = quire.Plan("PagedAttention", there, paged.attributes, device=device)
        with pytest.raises(quire.BadRequest, match="^output: is in host memory"):
            plan.bind({**there, "output": np.empty((4, 16), np.float32)})
    with (
        quire.Device(threads=1) as other,
        pytest.raises(quire.BadRequest, match="of another device"),
    ):
        quire.paged_attention(**there, **paged.attributes, device=other)
    there["query"].close()
    with pytest.raises(quire.BadRequest, match="buffer: it is closed"):
        quire.paged_attention(**there, **paged.attributes, device=device)


def test_misuse_of_buffers(device):
    buffer = device.empty((2, 3), np.float32)
    for use, kind in [
        (lambda: buffer.write(np.zeros((3, 2), np.float32)), quire.BadShape),
        (lambda: buffer.write(np.zeros((2, 3), np.int32)), quire.BadShape),
        (lambda: buffer.write(np.zeros((3, 2), np.float32).T), quire.Unsupported),
        (lambda: buffer.write([1]), quire.BadRequest),
        (lambda: device.empty((-1,)), quire.BadRequest),
        (lambda: device.empty((2**62, 2**62)), quire.Limit),
        (lambda: device.empty((2**50,)), quire.Error),
        (lambda: device.empty((2,), "complex64"), quire.BadType),
        (lambda: device.empty((1,) * 9), quire.BadRequest),
    ]:
        with pytest.raises(kind):
            use()


def test_a_buffer_outlives_its_device_s_name(paged):
    device = quire.Device(threads=1)
    there = buffers(device, paged)
    bound = quire.Plan("PagedAttention", there, paged.attributes, device=device).bind(there)
    for buffer in there.values():
        buffer.close()
    device.close()
    del there, device
    assert bound()["output"].shape == (4, 16)


def test_options_of_webgpu():
    try:
        adapters = quire.webgpu_adapters()
    except (quire.NotFound, quire.DeviceError) as fault:
        pytest.skip(str(fault))
    assert [adapter.index for adapter in adapters] == list(range(len(adapters)))
    if adapters:
        quire.Device("webgpu", webgpu={"adapter_index": 0, "memory_budget": 1 << 30})
    for options in ({"colour": 1}, {"memory_budget": -1}, {"adapter_name": 3}, {"library": "a\0b"}):
        with pytest.raises(quire.BadRequest):
            quire.Device("webgpu", webgpu=options)
    for options in ({"adapter_name": "no such adapter"}, {"library": "/nowhere/lib.so"}):
        with pytest.raises(quire.NotFound):
            quire.Device("webgpu", webgpu=options)
