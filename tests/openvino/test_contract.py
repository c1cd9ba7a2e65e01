"""OpenVINO's operations in the contract of all dialects: OpenVINO itself is the live library."""

from __future__ import annotations

from dmlgather.dialects.problem import Problem
from dmlgather.openvino.problems.export import EXPORTER
from tests.dialects.contract import Dialect, Exported
from tests.dialects.contract_tests import CallsContract, ExportContract
from tests.openvino.calling import FUNCTIONS, run
from tests.openvino.described import bound, described, drawn, refusals, types
from tests.openvino.judge import can_be_asked, judge, signature
from tests.openvino.specification import NAMES, Call, expected
from tests.openvino.strategies import ROWS, broken_call, faults_of, good_call
from tests.peers.openvino import EVALUATE, FAMILY


def is_judged(call: Call) -> bool:
    """Whether OpenVINO is a judge of the elements of a call. It is one of the result's type and shape in any case."""
    if not can_be_asked(call):
        return False
    if not call.fault and not call.operation.endswith("Slice"):
        right = expected(call)
        assert signature(call) == (NAMES[right.dtype], right.shape), f"the specification of {call}"
    return (EVALUATE if call.operation == "Gather" else FAMILY).known_fault(call) is None


def problem(call: Call) -> Problem:
    found: Problem = FUNCTIONS[call.operation].problem(*types(call), **call.named)
    return found


CALLS = Dialect(
    ROWS,
    good=good_call,
    faults=faults_of,
    broken=broken_call,
    run=run,
    arrays=lambda call: call.arrays,
    expected=expected,
    is_judged=is_judged,
    judge=lambda calls: list(map(judge, calls)),
    peers=(EVALUATE, FAMILY),
    left_out=(0.7, 0.7),
    examples=(200, 20),
)
EXPORTED = Exported(
    drawn=drawn,
    problem=problem,
    described=described,
    exporter=EXPORTER,
    refusals=refusals,
    expected=expected,
    bound=bound,
    title="OpenVINO ",
    paths=("data", "indices", "batch_dims", "steps"),
    examples=500,
)


class TestCalls(CallsContract):
    dialect = CALLS


class TestExport(ExportContract):
    dialect = EXPORTED
