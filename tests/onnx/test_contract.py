"""ONNX's operators in the contract of all dialects: onnxruntime is the live library."""

from __future__ import annotations

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.onnx.problems.export import EXPORTER
from dmlgather.onnx.problems.node_reading import problem_of
from tests.dialects.contract import Dialect, Exported
from tests.dialects.contract_tests import CallsContract, ExportContract
from tests.dialects.outcomes import content
from tests.onnx.calling import run
from tests.onnx.described import bound, described, refusals
from tests.onnx.judge import judge, strings
from tests.onnx.specification import Call, expected
from tests.onnx.strategies import ROWS, broken_call, faults_of, good_call
from tests.onnx.wide import drawn
from tests.peers.onnxruntime import ONNXRUNTIME


def problem(call: Call) -> Problem:
    """The problem that is read from the node of a call."""
    names = call.node.input
    types = [TensorType(array.shape, array.dtype) for array in call.arrays]
    values = [call.bounds.get(name) for name in names]
    return problem_of(call.node, call.opset, [*types, *[None] * (len(names) - len(types))], values)


VERSIONS = {f"{operator}-{version}": (operator, version) for operator, version in ROWS}

CALLS = Dialect(
    tuple(VERSIONS),
    good=lambda seed, row: good_call(seed, *VERSIONS[row]),
    faults=lambda row: faults_of(*VERSIONS[row]),
    broken=lambda seed, row, fault: broken_call(seed, *VERSIONS[row], fault),
    run=run,
    arrays=lambda call: call.arrays,
    expected=expected,
    is_judged=lambda call: ONNXRUNTIME.known_fault(call) is None,
    judge=lambda calls: list(map(judge, calls)),
    as_judged=lambda call, array: content(strings(array)),
    peers=(ONNXRUNTIME,),
    left_out=(1, 0.4),
    examples=(40, 3),
)
EXPORTED = Exported(
    drawn=drawn,
    problem=problem,
    described=described,
    exporter=EXPORTER,
    refusals=lambda call, level: (refusals(call, level), set()),
    expected=expected,
    bound=bound,
    title="ONNX ",
    paths=("data", "indices", "batch_dims", "steps"),
    examples=200,
)


class TestCalls(CallsContract):
    dialect = CALLS


class TestExport(ExportContract):
    dialect = EXPORTED
