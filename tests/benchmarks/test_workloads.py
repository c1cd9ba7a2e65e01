"""The table of workloads: its coverage, valid descriptors of all rows at all sizes, and its adaptation to a machine."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from benchmarks import ON_HOSTS, SUITES, TABLES, WORKLOADS, Budget
from benchmarks.chains import Chain
from benchmarks.draws import Zipf
from benchmarks.kinds import ALL, BACK, EVERY_OTHER, Along, Take, Tuples, ViewCopy, fitted
from benchmarks.suites import cases
from benchmarks.workload_arrays import make
from dmlgather.directml import Slice1OperatorDesc, validate
from tests import seeds
from tests.benchmarks.small import ROOMY, TINY, all_cases

ROWS = {workload.name: workload for workload in (*WORKLOADS, *ON_HOSTS, *TABLES)}


def test_names_are_words_and_unique() -> None:
    assert len(ROWS) == len(WORKLOADS) + len(ON_HOSTS) + len(TABLES)
    assert all(name == name.strip() and " " not in name and "," not in name for name in ROWS)


def test_the_suites_have_a_workload_of_every_group() -> None:
    groups = {
        "LLM", "DLRM", "KV cache", "MoE", "GNN", "index_select", "inner axis", "middle axis", "1-D", "GatherElements",
        "GatherND", "beam reorder", "slice", "launch",
    }  # fmt: skip
    for suite in ("cpu", "gpu"):
        (part,) = SUITES[suite]
        assert {case.workload.group for case in cases(part, ROOMY)} == groups
    assert {workload.group for workload in WORKLOADS} == groups | {"row sizes"}


@pytest.mark.parametrize(
    ("name", "row_bytes", "output_bytes"),
    [
        ("embedding", 5120, 51_200_000),
        ("kv-pages", 73_728, 1_207_959_552),
        ("moe-permute", 14_336, 469_762_048),
        ("gnn-400B", 400, 400_000_000),
        ("rows-5124", 10_248, 41_975_808),
        ("rows-5123", 10_246, 41_967_616),
        ("rows-12B", 12, 96_000_000),
        ("rows-10B", 10, 80_000_000),
        ("launch-floor", 256, 2048),
        ("row-4B", 4, 2**28),
        ("row-65536B", 65_536, 2**28),
        ("table-uniform", 1024, 204_800_000),
    ],
)
def test_rows_and_outputs_have_the_stated_bytes(name: str, row_bytes: int, output_bytes: int) -> None:
    kind, itemsize = ROWS[name].kind, np.dtype(ROWS[name].own).itemsize
    assert isinstance(kind, Take)
    assert kind.axis == 0
    assert prod(kind.shape[1:]) * itemsize == row_bytes
    assert prod(kind.out_shape) * itemsize == output_bytes


def test_popular_rows_follow_the_named_zipf_law() -> None:
    for name, alpha in (("dlrm-zipf-1.05", 1.05), ("dlrm-zipf-1.15", 1.15)):
        kind = ROWS[name].kind
        assert isinstance(kind, Take)
        assert kind.draw == Zipf(alpha)


def test_every_case_is_a_valid_descriptor_with_matching_arrays() -> None:
    for case in all_cases():
        data = make(case.kind, case.dtype, seeds.numpy_rng())
        assert validate(data.descriptor).findings == (), case.name
        assert data.out.shape == case.kind.out_shape
        assert data.described_out.base is not None, "the same memory"
        assert [array.shape for array in data.inputs] == [
            data.descriptor.tensor(name).sizes for name in data.descriptor.operator.tensors[:-1]
        ]


def test_workloads_are_valid_at_full_size() -> None:
    for workload in ROWS.values():
        assert not isinstance(workload.kind, Chain)
        assert validate(workload.kind.descriptor(workload.own)).findings == (), workload.name


def test_fitting_halves_the_named_axis_and_then_the_source() -> None:
    table = Take((1000, 64), 512)
    assert fitted(table, 0, 4, output_bytes=64 * 4 * 100, source_bytes=64 * 4 * 300) == Take((250, 64), 64)
    assert fitted(table, 1, 4, output_bytes=512 * 4 * 20, source_bytes=2**30) == Take((1000, 16), 512)
    assert fitted(Along((8, 8), 0), 1, 1, 33, 1) == Along((8, 4), 0)
    assert fitted(Tuples((16, 4), 10, 2), 0, 1, 5, 17) == Tuples((4, 4), 5, 2)
    crossed = ViewCopy((8, 6), (ALL, ALL), strides=(1, 8))
    assert fitted(crossed, 0, 1, 24, 1) == ViewCopy((4, 6), (ALL, ALL), strides=(1, 4))
    windows = ViewCopy((8, 6), (ALL, ALL), strides=(3, 1))
    assert fitted(windows, 0, 1, 24, 1) == ViewCopy((4, 6), (ALL, ALL), strides=(3, 1))


def test_cases_use_at_least_half_of_the_budget() -> None:
    (part,) = SUITES["cpu"]
    for case in cases(part, ROOMY):
        size = prod(case.kind.out_shape) * 4  # the sizes are the same for all element types
        assert size <= part.budget.output_bytes, case.name
        assert prod(case.kind.shape) * 4 <= part.budget.source_bytes, case.name
        full = prod(case.workload.kind.out_shape) * 4
        assert size * 2 > part.budget.output_bytes * 0.99 or size == full, case.name


def test_a_small_machine_gets_a_share_of_its_memory() -> None:
    assert Budget(100, 1000, output_share=4, source_share=2).within(80) == (20, 40)
    assert Budget(100, 1000, output_share=4, source_share=2).within(10**6) == (100, 1000)


@pytest.mark.parametrize(
    ("part", "extent", "window"),
    [
        (ALL, 5, (0, 5, 1)),
        (slice(1, 4), 5, (1, 3, 1)),
        (BACK, 4, (0, 4, -1)),
        (slice(3, 0, -1), 5, (1, 3, -1)),
        (EVERY_OTHER, 5, (0, 5, 2)),
        (slice(4, 0, -2), 6, (1, 4, -2)),
    ],
)
def test_a_slice_is_a_window_of_slice1(part: slice, extent: int, window: tuple[int, int, int]) -> None:
    kind = ViewCopy((extent,), (part,))
    desc = kind.descriptor("uint8")
    assert isinstance(desc, Slice1OperatorDesc)
    assert (*desc.input_window_offsets, *desc.input_window_sizes, *desc.input_window_strides) == window
    assert kind.out_shape == (len(range(extent)[part]),)


def test_views_know_the_order_of_their_axes_in_memory() -> None:
    assert ViewCopy((2, 3), (ALL, ALL)).order == (0, 1)
    assert ViewCopy((2, 3), (ALL, ALL), strides=(1, 2)).order == (1, 0)
    assert ViewCopy((2, 3), (ALL, ALL), strides=(2, 1)).order is None  # rows overlap
    assert ViewCopy((2, 3), (ALL, ALL), strides=(4, 1)).order is None  # padded


def test_cases_are_chosen_by_workload_group_or_name() -> None:
    (part,) = SUITES["cpu"]

    def names(*only: str) -> list[str]:
        return [case.name for case in cases(part, ROOMY, only, TINY)]

    assert names("beam") == ["beam float32", "beam uint8"]
    assert names("flip", "embedding uint8") == ["embedding uint8", "flip uint8"]
    assert names("GatherND")[0] == "tuples-rows float32"
    assert len(names()) == 69
