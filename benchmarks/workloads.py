"""The workloads at full size. A suite fits them to a machine."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.chains import Chain
from benchmarks.draws import Ascending, Distinct, Experts, Zipf
from benchmarks.kinds import ALL, BACK, EVERY_OTHER, Along, Kind, Take, Tuples, ViewCopy

BOTH = ("float32", "uint8")
FLOATS = ("float32", "float16")
HALF, SINGLE, BYTES = ("float16",), ("float32",), ("uint8",)


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload.

    `group`: similar workloads have the same group. `what`: a description in one line. `own`: its usual element type (float16
    stands for bfloat16: only the size matters). `shrink`: the output axis that is halved to fit a machine. `types`: element
    types of the CPU suite. `wide`: only in the sweeps of the suite "full".
    """

    name: str
    group: str
    what: str
    kind: Kind
    own: str
    shrink: int = 0
    types: tuple[str, ...] = BOTH
    wide: bool = False


WORKLOADS = (
    Workload("embedding", "LLM", "10,000 tokens from a vocabulary of 151,936 x 2560",
             Take((151_936, 2560), 10_000), "float16"),
    Workload("dlrm-uniform", "DLRM", "rows of 32 from a table of 10 million, batch 131,072 x 16",
             Take((10_000_000, 32), 2_097_152), "float16"),
    Workload("dlrm-zipf-1.05", "DLRM", "the same with popular rows, Zipf 1.05",
             Take((10_000_000, 32), 2_097_152, draw=Zipf(1.05)), "float16"),
    Workload("dlrm-zipf-1.15", "DLRM", "the same, Zipf 1.15",
             Take((10_000_000, 32), 2_097_152, draw=Zipf(1.15)), "float16"),
    Workload("kv-pages", "KV cache", "8 contexts of 128 Ki tokens in pages of 64 x 576",
             Take((32_768, 64, 576), 16_384, draw=Distinct()), "float16"),
    Workload("kv-rows", "KV cache", "32 requests of 128 rows of 576",
             Take((1_048_576, 576), 4096, draw=Distinct()), "float16"),
    Workload("moe-permute", "MoE", "4096 tokens to 8 of 128 experts, hidden 7168",
             Take((4096, 7168), 32_768, draw=Experts(top=8, experts=128)), "float16"),
    Workload("gnn-400B", "GNN", "features of a million nodes, 100 floats each, out of 2.4 million",
             Take((2_400_000, 100), 1_000_000), "float32"),
    Workload("rows-5120", "index_select", "4096 of 4096 rows of 5120 16-bit elements",
             Take((4096, 5120), 4096), "float16", types=HALF),
    Workload("rows-5124", "index_select", "rows of 5124: not a multiple of 16 bytes",
             Take((4096, 5124), 4096), "float16", types=HALF),
    Workload("rows-5123", "index_select", "rows of 5123: an odd number of 2-byte elements",
             Take((4096, 5123), 4096), "float16", types=HALF),
    Workload("rows-12B", "index_select", "points of three floats",
             Take((2_000_000, 3), 8_000_000), "float32", types=SINGLE),
    Workload("rows-10B", "index_select", "rows of five 2-byte elements",
             Take((2_000_000, 5), 8_000_000), "float16", types=HALF),
    Workload("inner-4096", "inner axis", "4096 of 4096 columns",
             Take((4096, 4096), 4096, axis=1), "float32"),
    Workload("inner-few", "inner axis", "64 of 256 columns, 262,144 rows",
             Take((262_144, 256), 64, axis=1), "float32"),
    Workload("middle", "middle axis", "1024 of 1024 rows in each of 128 matrices",
             Take((128, 1024, 1024), 1024, axis=1), "float32"),
    Workload("elements", "1-D", "5 million of 10 million elements",
             Take((10_000_000,), 5_000_000), "float32"),
    Workload("along-last", "GatherElements", "along rows of 8192",
             Along((4096, 8192), axis=1), "float32"),
    Workload("along-first", "GatherElements", "along columns of 2048",
             Along((2048, 4096), axis=0), "float32", shrink=1),
    Workload("tuples-rows", "GatherND", "pairs of coordinates that read 64 elements each",
             Tuples((512, 512, 64), 1_000_000, width=2), "float32"),
    Workload("tuples-scalars", "GatherND", "pairs of coordinates that read one element each",
             Tuples((2048, 2048), 8_000_000, width=2), "float32"),
    Workload("beam", "beam reorder", "16 beams of a layer's KV cache: 32 heads x 2048 x 128",
             Take((16, 32, 2048, 128), 16), "float16", shrink=2),
    Workload("crop", "slice", "64 images 3 x 256 x 256 to 224 x 224",
             ViewCopy((64, 3, 256, 256), (ALL, ALL, slice(16, 240), slice(16, 240))), "float32"),
    Workload("flip", "slice", "64 images 224 x 224 x 3 (NHWC), left to right",
             ViewCopy((64, 224, 224, 3), (ALL, ALL, BACK, ALL)), "uint8", types=BYTES),
    Workload("reverse-columns", "slice", "[:, ::-1]", ViewCopy((4096, 4096), (ALL, BACK)), "float32"),
    Workload("reverse-rows", "slice", "[::-1]", ViewCopy((4096, 4096), (BACK, ALL)), "float32"),
    Workload("step-2", "slice", "[::2, ::2]", ViewCopy((8192, 8192), (EVERY_OTHER, EVERY_OTHER)), "float32"),
    Workload("transposed", "slice", "a copy of a transposed matrix",
             ViewCopy((8192, 8192), (ALL, ALL), strides=(1, 8192)), "float32"),
    Workload("windows", "slice", "sliding windows of 1024 that overlap by half",
             ViewCopy((65_536, 1024), (ALL, ALL), strides=(512, 1)), "float32"),
    Workload("launch-floor", "launch", "8 rows of 64 elements: what a call costs",
             Take((1024, 64), 8), "float32"),
    Workload("embedding-4096", "LLM", "16,384 tokens from 128,256 x 4096",
             Take((128_256, 4096), 16_384), "float16", types=HALF, wide=True),
    Workload("embedding-8192", "LLM", "2048 tokens from 152,064 x 8192",
             Take((152_064, 8192), 2048), "float16", types=HALF, wide=True),
    Workload("embedding-32", "LLM", "32 tokens from 151,936 x 2560",
             Take((151_936, 2560), 32), "float16", types=HALF, wide=True),
    Workload("embedding-1", "LLM", "one token from 151,936 x 2560",
             Take((151_936, 2560), 1), "float16", types=HALF, wide=True),
    Workload("dlrm-192", "DLRM", "rows of 192 from 10 million, 65,536 x 32",
             Take((10_000_000, 192), 2_097_152), "float16", types=HALF, wide=True),
    Workload("moe-permute-2", "MoE", "4096 tokens to 2 of 8 experts, hidden 4096",
             Take((4096, 4096), 8192, draw=Experts(top=2, experts=8)), "float16", types=HALF, wide=True),
    Workload("gnn-512B", "GNN", "a million of 10 million nodes of 128 floats",
             Take((10_000_000, 128), 1_000_000), "float32", types=SINGLE, wide=True),
    Workload("inner-16384", "inner axis", "4096 of 4096 columns, 16,384 rows",
             Take((16_384, 4096), 4096, axis=1), "float16", types=HALF, wide=True),
    Workload("middle-1025", "middle axis", "rows of 1025 elements",
             Take((128, 1024, 1025), 1024, axis=1), "float32", types=SINGLE, wide=True),
    Workload("cube-0", "index_select", "250 of 500 along axis 0 of a cube",
             Take((500, 500, 500), 250, axis=0), "float32", shrink=1, types=SINGLE, wide=True),
    Workload("cube-1", "index_select", "the same along axis 1",
             Take((500, 500, 500), 250, axis=1), "float32", types=SINGLE, wide=True),
    Workload("cube-2", "index_select", "the same along axis 2",
             Take((500, 500, 500), 250, axis=2), "float32", types=SINGLE, wide=True),
    Workload("along-attention", "GatherElements", "DeBERTa's 10 x 10 x 512 x 512, last axis",
             Along((10, 10, 512, 512), axis=3), "float32", types=SINGLE, wide=True),
    Workload("along-sorted", "GatherElements", "rows of 65,536, as after a sort",
             Along((1024, 65_536), axis=1), "float32", types=SINGLE, wide=True),
    *(Workload(f"row-{size}B", "row sizes", f"random rows of {size} bytes, 256 MiB in all",
               Take((2**28 // size, size // 4), 2**28 // size), "float32", types=SINGLE, wide=True)
      for size in (4, 16, 64, 256, 1024, 4096, 16_384, 65_536)),
)  # fmt: skip

ON_HOSTS = (
    Workload("one-each", "GatherElements", "one element of each of 2048 rows",
             Along((2048, 1024), axis=1, count=1), "float32"),
    Workload("along-first-1024", "GatherElements", "along columns of 4096, rows of 1024",
             Along((4096, 1024), axis=0), "float32", shrink=1),
    Workload("scalars", "1-D", "65,536 of 65,536 elements, which stay in the cache",
             Take((65_536,), 65_536), "float32"),
    Workload("inner-64", "inner axis", "64 of 128 columns, 65,536 rows",
             Take((65_536, 128), 64, axis=1), "float32", types=SINGLE),
    Workload("middle-512B", "middle axis", "512 of 1000 rows of 512 bytes in each of 64 matrices",
             Take((64, 1000, 128), 512, axis=1), "float32", types=SINGLE),
    Workload("middle-256B", "middle axis", "the same, rows of 256 bytes",
             Take((64, 1000, 64), 512, axis=1), "float32", types=SINGLE),
    Workload("one-scalar", "slice", "a million copies of one element, which stay in the cache",
             ViewCopy((1024, 1024), (ALL, ALL), strides=(0, 0)), "float32"),
    Workload("channels-last-3", "slice", "8 images 3 x 224 x 224, channels last",
             ViewCopy((8, 224, 224, 3), (ALL, ALL, ALL, ALL), strides=(150_528, 224, 1, 50_176)), "float32"),
    Workload("channels-last-16", "slice", "8 images 16 x 224 x 224, channels last",
             ViewCopy((8, 224, 224, 16), (ALL, ALL, ALL, ALL), strides=(802_816, 224, 1, 50_176)), "float32"),
)  # fmt: skip
"""Workloads for the caches and the call overhead of a CPU: only in the suites "cpu" and "full"."""

TABLES = (
    Workload("table-uniform", "table", "200,000 rows of 1 KiB from a table of 3 million, which no worker can hold",
             Take((3_000_000, 256), 200_000), "float32", types=SINGLE),
    Workload("table-sorted", "table", "the same, rows in ascending order",
             Take((3_000_000, 256), 200_000, draw=Ascending()), "float32", types=SINGLE),
    Workload("table-zipf-1.05", "table", "the same with popular rows, Zipf 1.05",
             Take((3_000_000, 256), 200_000, draw=Zipf(1.05)), "float32", types=SINGLE),
)  # fmt: skip
"""Workloads on a table in a file, for a cluster's workers."""

CHAINS = (
    Workload("attention-heads", "chain", "heads of 64 split, and 256 of 1024 tokens taken: 32 x 1024 x 1024",
             Chain((32, 1024, 1024), "x.reshape(-1, 1024, 16, 64).transpose(0, 2, 1, 3)[:, :, i]", 256, 1,
                   in_torch="x.reshape(-1, 1024, 16, 64).permute(0, 2, 1, 3)[:, :, i]"), "float16", types=FLOATS),
    Workload("patches", "chain", "64 images 3 x 256 x 256 cropped to 224 x 224, in patches of 16 x 16, channels last",
             Chain((64, 3, 256, 256),
                   "x[:, :, 16:240, 16:240].reshape(-1, 3, 14, 16, 14, 16).transpose(0, 2, 4, 3, 5, 1)",
                   in_torch="x[:, :, 16:240, 16:240].reshape(-1, 3, 14, 16, 14, 16).permute(0, 2, 4, 3, 5, 1)"),
             "float16", types=FLOATS),
    Workload("kv-reorder-crop", "chain", "16 beams of a layer's KV cache reordered, and cropped to 1024 of 2048 tokens",
             Chain((16, 32, 2048, 128), "x[i][:, :, :1024]", 16), "float16", shrink=1, types=FLOATS),
    Workload("flip-crop", "chain", "64 images 256 x 256 x 3 to 224 x 224, left to right, channels first",
             Chain((64, 256, 256, 3), "x[:, 16:240, 16:240][:, :, ::-1].transpose(0, 3, 1, 2)",
                   in_torch="x[:, 16:240, 16:240].flip(2).permute(0, 3, 1, 2)"), "uint8"),
    Workload("embedding-transpose", "chain", "16 sequences of 512 tokens from a vocabulary of 30,522 x 768, channels first",
             Chain((30_522, 768), "x[i].reshape(-1, 512, 768).transpose(0, 2, 1)", 8192,
                   in_torch="x[i].reshape(-1, 512, 768).permute(0, 2, 1)"), "float16", types=FLOATS),
)  # fmt: skip
"""Workloads of several steps."""

FLOOR = "launch-floor"
"""Name of the workload that is also timed with the checked call and, on a GPU, an empty kernel."""
