"""How reports count nodes: each node once, in the same words in headings and in the last line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from dmlgather.cli.check import _summary
from dmlgather.cli.schema import Schema
from dmlgather.directml.types import FeatureLevel
from dmlgather.onnx_checking.checked_model import CheckedNode, DirectMLForm, Verdict
from dmlgather.report.check_report import CheckReport, FileReport, verdicts
from dmlgather.report.text import NodeListing, model_lines
from tests.cli.command import Command
from tests.onnx_checking.modelling import saved

LEVEL = FeatureLevel.parse("6_4")
FORM = DirectMLForm(level=LEVEL, operators=("GATHER",))


def _node(place: str, verdict: Verdict, provided: tuple[str, ...] = ()) -> CheckedNode:
    return CheckedNode(
        place=place, graph="", name="", index=0, operator="Gather", opset=13, version=13, inputs=(), outputs=(),
        verdict=verdict, provided=provided, taken=FORM, lowest=FORM,
    )  # fmt: skip


def _report(*nodes: CheckedNode) -> CheckReport:
    return CheckReport(version="0", level=LEVEL, files=(FileReport(file="f.onnx", level=LEVEL, kind="onnx", nodes=nodes),))


NODES = (
    _node("a", Verdict.TAKEN),
    _node("b", Verdict.TAKEN, ("N >= 1",)),
    _node("c", Verdict.HOST),
    _node("d", Verdict.HOST),
    _node("e", Verdict.UNREACHED),
)


def test_the_last_line_and_the_heading_use_the_same_words() -> None:
    found = "1 decided, 1 conditional, 0 undecided, 2 host, 0 refused, 1 unreached"
    report = _report(*NODES)
    assert _summary(report) == f"1 file checked, 5 nodes ({found}), no findings"
    (heading, *_) = model_lines(report.files[0], NodeListing.WRONG)
    assert heading == "f.onnx: ONNX model, opset ; 5 Gather: 1 decided, 1 conditional, 2 host, 1 unreached at 6_4; 0 other nodes"
    assert report.exit_code == 0


def test_nodes_beside_directml_are_listed_with_all_others() -> None:
    few = list(model_lines(_report(*NODES).files[0], NodeListing.WRONG))
    assert few[1:] == ["  taken, provided that N >= 1"]
    every = list(model_lines(_report(*NODES).files[0], NodeListing.ALL))
    assert [line.split(": ", 2)[-1] for line in every[3:]] == [
        "host: shape arithmetic",
        "host: shape arithmetic",
        "unreached: no run of the model reaches it",
    ]


def test_why_a_node_is_not_reached() -> None:
    node = _node("e", Verdict.UNREACHED).model_copy(update={"reason": "nothing calls the function"})
    *_, line = model_lines(_report(node).files[0], NodeListing.ALL)
    assert line.endswith(": unreached: nothing calls the function")


@given(st.lists(st.tuples(st.sampled_from(Verdict), st.booleans())))
def test_each_node_is_counted_once(drawn: list[tuple[Verdict, bool]]) -> None:
    nodes = [_node(str(number), verdict, ("N >= 1",) * some) for number, (verdict, some) in enumerate(drawn)]
    counted = verdicts(nodes)
    assert sum(counted.counts.values()) == len(nodes)
    found = Counter(verdict for verdict, _ in drawn)
    assert counted.taken == counted.decided + counted.conditional == found[Verdict.TAKEN]
    assert counted.conditional == sum(verdict is Verdict.TAKEN and some for verdict, some in drawn)
    assert counted.unknown == counted.undecided == found[Verdict.UNKNOWN]
    assert (counted.host, counted.refused, counted.unreached) == tuple(
        found[verdict] for verdict in (Verdict.HOST, Verdict.REFUSED, Verdict.UNREACHED)
    )


COUNTED = "the number of elements that NonZero 'maker' finds"


def test_nodes_whose_conditions_depend_on_data_are_counted_apart(folder: Path, command: Command) -> None:
    saved(folder, "agraph (float[N] x) => (int64 y) { [maker] m = NonZero(x) [last] y = Gather<axis = 1>(m, m) }", "a.onnx")
    ended = command("check", "a.onnx")
    heading, provided, legend = ended.out.splitlines()
    assert heading.endswith("1 conditional (1 on data) at 6_4; 1 other node not judged")
    size = provided.removeprefix("  taken, provided that ").removesuffix(" >= 1")
    assert legend == f"  {size} = {COUNTED}"
    assert "1 conditional (1 on data), 0 undecided" in ended.err
    assert legend in command("check", "--verbose", "a.onnx").out.splitlines()
    report = command.report(Schema.REPORT, "check", "a.onnx")
    assert report["verdicts"]["from_data"] == 1
    maker = report["files"][0]["nodes"][0]["conditions"][0]["makers"][size]
    assert maker == {"place": "maker", "operator": "NonZero", "text": COUNTED, "from_data": True}
