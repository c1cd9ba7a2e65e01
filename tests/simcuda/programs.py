"""Programs for the simulated GPU, each in a separate process. Each contains something that the GPU must notice or allow.

python -m tests.simcuda.programs NAME runs one. A program asserts what it can see itself, and test_device.py knows its ending.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import cupy
import numpy as np

COUNT = 256
SIMULATED = ctypes.CDLL("libcuda.so.1")
for _name in ("launches", "used", "pending", "handles"):
    getattr(SIMULATED, f"simcuda_{_name}").restype = ctypes.c_uint64


def kernel(body: str, parameters: str = "int* p, int n") -> Any:
    """Return a kernel with this body."""
    return cupy.RawKernel(f'extern "C" __global__ void tried({parameters}) {{ {body} }}', "tried")


STORE = "p[n] = 1;"
COPY = ("q[threadIdx.x] = p[threadIdx.x];", "const int* p, int* q")


def numbers(count: int = COUNT) -> Any:
    """Return 0, 1, 2, … on the GPU."""
    return cupy.arange(count, dtype=np.int32)


def wait() -> None:
    """Wait for the GPU."""
    cupy.cuda.runtime.deviceSynchronize()


def exact() -> None:
    """Give each array separate memory of its exact size."""
    cupy.cuda.set_allocator(None)


def another_stream() -> Any:
    """Return a stream that is not ordered with the legacy one."""
    return cupy.cuda.Stream(non_blocking=True)


def refused(call: Callable[[], Any], status: str) -> None:
    """Assert that the call raises CuPy's error with this status."""
    said = "no error"
    try:
        call()
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        said = str(error)
    assert status in said, said


def correct_kernels() -> None:
    exact()
    x = numbers(10)
    kernel(STORE)((1,), (1,), (x, 9))
    assert x.get().tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 1]
    assert int((numbers() * 2).sum()) == COUNT * (COUNT - 1)
    assert float(cupy.linspace(0, 1, COUNT).max()) == 1


def an_access_one_byte_beyond() -> None:
    exact()
    x = cupy.zeros(40, np.int8)
    kernel(STORE, "char* p, int n")((1,), (1,), (x, 40))
    wait()


def a_fault_is_an_error_of_the_device() -> None:
    exact()
    x = numbers(10)
    kernel(STORE)((1,), (1,), (x, 10))
    refused(wait, "cudaErrorIllegalAddress")
    refused(lambda: numbers(10), "cudaErrorIllegalAddress")


def use_after_free() -> None:
    exact()
    x = numbers(10)
    stale = cupy.uint64(x.data.ptr)
    del x
    kernel(STORE)((1,), (1,), (stale, 0))
    wait()


def a_free_of_what_is_free() -> None:
    address = cupy.cuda.runtime.malloc(100)
    cupy.cuda.runtime.free(address)
    refused(lambda: cupy.cuda.runtime.free(address), "cudaErrorInvalidValue")


def an_address_that_is_not_aligned() -> None:
    kernel("*(int*)((char*)p + n) = 1;")((1,), (1,), (numbers(10), 1))
    wait()


def the_host_reads_device_memory() -> None:
    ctypes.string_at(numbers(10).data.ptr, 4)


def a_race_in_shared_memory() -> None:
    racing = kernel("__shared__ int s[256]; s[threadIdx.x] = threadIdx.x; p[threadIdx.x] = s[threadIdx.x ^ 1];")
    racing((1,), (COUNT,), (numbers(), 0))
    wait()


def warps_synchronise() -> None:
    """Accesses that __syncwarp orders are no race, and shuffles and votes wait for the lanes that they name."""
    body = (
        "__shared__ int s[256]; int t = threadIdx.x; s[t] = t; __syncwarp(); int v = s[t ^ 1]; __syncwarp(); s[t] = v;"
        "if (t % 3) v += 1000; v += __shfl_xor_sync(~0u, t, 16); p[t] = v + __popc(__ballot_sync(~0u, t % 2));"
    )
    x = numbers()
    kernel(body)((1,), (COUNT,), (x, 0))
    assert x.get().tolist() == [(t ^ 1) + (1000 if t % 3 else 0) + (t ^ 16) + 16 for t in range(COUNT)]


def shared_memory_over_the_limit() -> None:
    body = "extern __shared__ int s[]; s[threadIdx.x] = p[threadIdx.x]; __syncthreads(); p[threadIdx.x] = s[255 - threadIdx.x];"
    turned, x = kernel(body), numbers()
    refused(lambda: turned((1,), (COUNT,), (x, 0), shared_mem=48 * 1024 + 4), "CUDA_ERROR_INVALID_VALUE")
    turned((1,), (COUNT,), (x, 0), shared_mem=4 * COUNT)
    turned.max_dynamic_shared_size_bytes = 227 * 1024
    turned((1,), (COUNT,), (x, 0), shared_mem=227 * 1024)
    assert (x.get() == np.arange(COUNT)).all()

    def ask_for_more() -> None:
        turned.max_dynamic_shared_size_bytes = 227 * 1024 + 1

    refused(ask_for_more, "CUDA_ERROR_INVALID_VALUE")


def grids_and_blocks_over_the_limits() -> None:
    store, x = kernel(STORE), numbers()
    shapes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (((1,), (1025,)), ((1, 65536), (1,)), ((1,), (1, 1, 65)))
    for grid, block in shapes:
        refused(lambda grid=grid, block=block: store(grid, block, (x, 0)), "CUDA_ERROR_INVALID_VALUE")  # type: ignore[misc]


def a_parameter_too_short() -> None:
    """Pass parameters as one buffer. In the list, 1 precedes its address, 2 precedes its size's address, and 0 is the end."""
    store, x = kernel(STORE), numbers(10)
    store.compile()

    def launch(size: int) -> None:
        buffer = (ctypes.c_uint64 * 2)(x.data.ptr, 3)
        length = ctypes.c_uint64(size)
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(length), 0)
        cupy.cuda.driver.launchKernel(store.kernel.ptr, 1, 1, 1, 1, 1, 1, 0, 0, 0, ctypes.addressof(extra))

    launch(12)
    assert x.get()[3] == 1
    refused(lambda: launch(11), "CUDA_ERROR_INVALID_VALUE")


def a_launch_on_a_destroyed_stream() -> None:
    store, x = kernel(STORE), numbers(10)
    stream = cupy.cuda.runtime.streamCreate()
    with cupy.cuda.ExternalStream(stream):
        store((1,), (1,), (x, 0))
    cupy.cuda.runtime.streamDestroy(stream)
    with cupy.cuda.ExternalStream(stream):
        refused(lambda: store((1,), (1,), (x, 0)), "CUDA_ERROR_INVALID_HANDLE")


def memory_of_another_device() -> None:
    x = numbers()
    with cupy.cuda.Device(1):
        kernel(STORE)((1,), (1,), (x, 0))
        wait()


def memory_is_bounded() -> None:
    try:
        cupy.empty(5 << 30, np.uint8)
    except cupy.cuda.memory.OutOfMemoryError:
        pass
    else:
        raise AssertionError("5 GiB of 4")
    x = cupy.empty(1000)
    assert SIMULATED.simcuda_used(0) > 0
    del x
    cupy.get_default_memory_pool().free_all_blocks()
    assert SIMULATED.simcuda_used(0) == 0


def a_copy_that_says_the_wrong_way() -> None:
    x, host = numbers(), np.zeros(COUNT, np.int32)
    runtime = cupy.cuda.runtime
    runtime.memcpy(host.ctypes.data, x.data.ptr, x.nbytes, runtime.memcpyDeviceToHost)
    assert (host == np.arange(COUNT)).all()
    args = (host.ctypes.data, x.data.ptr, x.nbytes)
    refused(lambda: runtime.memcpy(*args, runtime.memcpyHostToDevice), "cudaErrorInvalidValue")


def a_driver_that_is_too_old_for_the_ptx() -> None:
    refused(lambda: kernel(STORE).compile(), "CUDA_ERROR_UNSUPPORTED_PTX_VERSION")


def a_wait_left_out() -> None:
    """Streams wait for each other only if they are told to."""
    copy, stream = kernel(*COPY), another_stream()
    for ordered in (False, True):
        x, y = cupy.zeros(COUNT, np.int32), cupy.zeros(COUNT, np.int32)
        wait()
        x += 5
        if ordered:
            event = cupy.cuda.Event()
            event.record()
            stream.wait_event(event)
        with stream:
            copy((1,), (COUNT,), (x, y))
        stream.synchronize()
        assert bool((cupy.asnumpy(y) == 5).all()) == ordered
    assert SIMULATED.simcuda_handles(0) >= 1


def blocking_streams_wait_for_the_legacy_one() -> None:
    copy, x, y = kernel(*COPY), cupy.zeros(COUNT, np.int32), cupy.zeros(COUNT, np.int32)
    wait()
    x += 5
    assert SIMULATED.simcuda_pending() > 0
    with (stream := cupy.cuda.Stream()):
        copy((1,), (COUNT,), (x, y))
    stream.synchronize()
    assert (y.get() == 5).all()


def an_array_let_go_too_early() -> None:
    """Memory that returns to the pool before another stream has read it is overwritten. An event prevents it."""
    copy, stream = kernel(*COPY), another_stream()
    for ordered in (False, True):
        cupy.get_default_memory_pool().free_all_blocks()  # so that the next array gets the memory of the dropped one
        x, y = numbers(), cupy.zeros(COUNT, np.int32)
        wait()
        with stream:
            copy((1,), (COUNT,), (x, y))
        if ordered:
            cupy.cuda.get_current_stream().wait_event(stream.record())
        del x
        reused = cupy.full(COUNT, -1, np.int32)
        cupy.cuda.get_current_stream().synchronize()
        stream.synchronize()
        assert bool((y.get() == np.arange(COUNT)).all()) == ordered
        del y, reused


def a_copy_between_devices_that_does_not_wait() -> None:
    copy, x = kernel(*COPY), cupy.zeros(COUNT, np.int32)
    copy.compile()
    wait()
    for ordered in (False, True):
        x[:] = 5 + ordered
        event = cupy.cuda.Event()
        event.record()
        with cupy.cuda.Device(1), another_stream() as stream:
            if ordered:
                stream.wait_event(event)
            y = cupy.empty(COUNT, np.int32)
            y.data.copy_from_device_async(x.data, x.nbytes)
            stream.synchronize()
            assert bool((y.get() == 5 + ordered).all()) == ordered
        wait()


def memory_of_the_host() -> None:
    """Pinned memory is read when the copy runs, pageable memory when it is called."""
    stream, runtime = another_stream(), cupy.cuda.runtime
    x = cupy.empty(COUNT, np.int32)
    pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(x.nbytes), np.int32, COUNT)
    for host, seen in ((pinned, 2), (np.empty(COUNT, np.int32), 1)):
        host[:] = 1
        runtime.memcpyAsync(x.data.ptr, host.ctypes.data, x.nbytes, runtime.memcpyHostToDevice, stream.ptr)
        host[:] = 2
        stream.synchronize()
        assert (x.get() == seen).all()


def a_captured_graph() -> None:
    stream, x = another_stream(), cupy.zeros(10, np.int32)
    x += 1
    wait()
    with stream:
        stream.begin_capture()
        x += 1
        graph = stream.end_capture()
    assert (x.get() == 1).all()
    for _ in range(3):
        graph.launch(stream)
    stream.synchronize()
    assert (x.get() == 4).all()


def calls_that_captures_forbid() -> None:
    stream, runtime = another_stream(), cupy.cuda.runtime

    def captured(call: Callable[[], Any], status: str, mode: int = runtime.streamCaptureModeGlobal) -> None:
        stream.begin_capture(mode)
        refused(call, status)
        refused(stream.end_capture, "cudaErrorStreamCaptureInvalidated")

    captured(lambda: runtime.malloc(100), "cudaErrorStreamCaptureUnsupported")
    captured(stream.synchronize, "cudaErrorStreamCaptureUnsupported", runtime.streamCaptureModeRelaxed)
    captured(wait, "cudaErrorStreamCaptureUnsupported", runtime.streamCaptureModeRelaxed)
    outside = cupy.cuda.Event()
    outside.record()
    captured(lambda: stream.wait_event(outside), "cudaErrorStreamCaptureIsolation")
    other = another_stream()
    x = numbers()
    stream.begin_capture()
    other.wait_event(stream.record())
    with other:
        x += 1
    refused(stream.end_capture, "cudaErrorStreamCaptureUnjoined")
    with cupy.cuda.Stream() as blocking:
        blocking.begin_capture(runtime.streamCaptureModeRelaxed)
        refused(lambda: runtime.streamSynchronize(0), "cudaErrorStreamCaptureImplicit")
        refused(blocking.end_capture, "cudaErrorStreamCaptureInvalidated")
    ended: list[BaseException] = []

    def end() -> None:
        try:
            stream.end_capture()
        except runtime.CUDARuntimeError as error:
            ended.append(error)

    stream.begin_capture(runtime.streamCaptureModeGlobal)
    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    assert "cudaErrorStreamCaptureWrongThread" in str(ended[0])
    stream.end_capture()


def functions_of_the_host() -> None:
    """They run in the stream's order, and may call the driver."""
    order: list[int] = []
    with another_stream() as stream:
        x = numbers()
        stream.launch_host_func(lambda _: order.append(1), None)
        x += 1
        stream.launch_host_func(lambda _: order.append(2), None)
    stream.synchronize()
    assert order == [1, 2]


def lent(array: Any, stream: Any) -> Any:
    """Return the array as lent by another library, with the library's stream."""
    return SimpleNamespace(
        array=array, __cuda_array_interface__={**array.__cuda_array_interface__, "version": 3, "stream": stream.ptr}
    )


def the_library_waits_for_who_lends() -> None:
    import dmlgather

    theirs, table = another_stream(), cupy.zeros((COUNT, 4), np.int32)
    rows = cupy.arange(COUNT - 1, -1, -1)
    dmlgather.onnx.gather(table, rows)  # loads the kernel
    wait()
    with theirs:
        table += cupy.arange(COUNT, dtype=np.int32)[:, None]
    got = dmlgather.onnx.gather(lent(table, theirs), rows)
    assert (got.get() == np.arange(COUNT)[::-1, None]).all()


def the_library_keeps_what_it_was_lent() -> None:
    """The released memory of the lender goes to a third stream that waits for no other."""
    import dmlgather

    theirs, mine, third, rows = another_stream(), another_stream(), another_stream(), cupy.arange(COUNT)
    with third:
        table = cupy.full((COUNT, 4), 5, np.int32)
    out = cupy.zeros((COUNT, 4), np.int32)
    op = dmlgather.compile(dmlgather.GatherOperatorDesc.of(table, rows, axis=0))
    op(table, rows, out=out)
    out.fill(0)
    wait()
    with mine:
        op(lent(table, theirs), rows, out=out)
    del table
    gc.collect()
    with third:
        reused = cupy.full((COUNT, 4), -1, np.int32)
    third.synchronize()
    mine.synchronize()
    assert (out.get() == 5).all()
    del reused


def forget_to_wait() -> None:
    """Break the library so that streams do not wait for each other."""
    cupy.cuda.runtime.streamWaitEvent = lambda *_: None


def forget_to_keep() -> None:
    """Break the library so that it releases lent memory before it is read."""
    from dmlgather.backends import streams

    streams.Kept.add = lambda *_: None  # type: ignore[method-assign]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        globals()[name]()
