"""lax.gather in the contract of all dialects: JAX, on the CPU, is the live library."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dmlgather.dialects.problem import TensorType
from dmlgather.lax.problems.export import EXPORTER
from dmlgather.lax.problems.gather import LaxGather
from tests.dialects.contract import Dialect, Exported
from tests.dialects.contract_tests import CallsContract, ExportContract
from tests.dialects.outcomes import Array, Refusal, content
from tests.lax.calling import run
from tests.lax.faults import FAULTS
from tests.lax.judge import judge, judged_content, refusal
from tests.lax.random_windows import described, drawn, refusals
from tests.lax.specification import Call, expected
from tests.lax.strategies import ROWS, broken_call, good_call
from tests.peers.jax import BITS
from tests.peers.jax import LAX as PEER

JUDGED_FAULTS = {fault.name for fault in FAULTS if fault.judged}


def is_judged(call: Call) -> bool:
    """Whether JAX is a judge of a call."""
    if call.fault:
        return call.fault in JUDGED_FAULTS
    return call.x64 is not None and PEER.known_fault(call) is None


def verdicts(calls: Sequence[Call]) -> Sequence[Array | Refusal]:
    return list(map(refusal, calls)) if calls[0].fault else judge(calls)


def problem(call: Call) -> LaxGather:
    data, indices = (TensorType(array.shape, array.dtype) for array in (call.operand, call.start_indices))
    return LaxGather.from_call(data, indices, call.dimension_numbers, call.slice_sizes, mode=call.mode, fill_value=None)


CALLS = Dialect(
    ROWS,
    good=good_call,
    faults=lambda row: FAULTS if row == "x32" else (),
    broken=lambda seed, row, fault: broken_call(seed, fault),
    run=run,
    arrays=lambda call: (call.operand, call.start_indices),
    expected=expected,
    is_judged=is_judged,
    judge=verdicts,
    as_judged=lambda call, array: (judged_content if BITS.known_fault(call) else content)(array),
    peers=(PEER, BITS),
    left_out=(0.2, 0.2),
    examples=(6, 15),
    states_faults=False,
    together=50,
)
EXPORTED = Exported(
    drawn=drawn,
    problem=problem,
    described=described,
    exporter=EXPORTER,
    refusals=refusals,
    title="JAX lax.gather",
    paths=("operand", "start_indices", "slice_sizes", "operand_batching_dims"),
    expected=expected,
    bound=lambda call: {"data": call.operand, "indices": call.start_indices, "sizes": np.array(0)},
    examples=350,
)


class TestCalls(CallsContract):
    dialect = CALLS


class TestExport(ExportContract):
    dialect = EXPORTED
