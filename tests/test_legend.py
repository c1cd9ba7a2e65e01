"""The legend of an explanation and the words that it explains. Judges: real explanations, and the names in the CUDA sources."""

from __future__ import annotations

import re
from pathlib import Path

import dmlgather as dg
from ci.pages.legend_tables import CPU_LOOPS
from dmlgather.backends.cpu import CpuProgram
from dmlgather.backends.cuda.describe import describe, name_legend
from dmlgather.diagram.explanation import TERMS, legend
from dmlgather.plan import IndexPlan, IndexType, Lookup
from tests.diagram.test_diagrams import rows
from tests.directml.examples import EXAMPLES

SOURCES = Path(__file__).parents[1] / "cuda_kernels"

POLICIES = ("clamp", "raise", "promise", dg.Fill(1))


def texts() -> list[str]:
    """Return explanations of the documented examples and of special cases."""
    ops = [dg.compile(example.desc) for example in EXAMPLES]
    ops += [dg.compile(rows((4, 3), 2), out_of_bounds=policy) for policy in POLICIES]
    empty = dg.onnx.gather.plan(((0, 3), "float32"), ((2,), "int64"), axis=0, out_of_bounds=dg.Fill(0))
    large = dg.compile(rows((2**14, 2**10), 2**12))
    narrow = Lookup((1,), 0, 7, 0, 1)
    general = IndexPlan((5,), (1,), (0,), 1, 7, 5, lookups=(narrow,), index_type=IndexType.INT8, index_extent=5)
    return [
        *(str(op.explain()) for op in (*ops, large)),
        f"plan      {empty}",
        f"cpu       {CpuProgram(ops[0].plan, None).describe()}",
        f"cuda      {describe(IndexPlan((4096, 4096), (4096, 1), (1, 4096), 4, 2**24, 2**24))}",
        f"cuda      {describe(general)}",
    ]


def test_every_kernel_name_is_explained_part_by_part() -> None:
    """The names of the entry points come from the sources."""
    names = [name for file in SOURCES.glob("*.cu") for name in re.findall(r"^[A-Z]+\((\w+)", file.read_text(), re.MULTILINE)]
    assert len(names) > 100
    for name in names:
        parts = name_legend(name)
        assert "_".join(part for part, _ in parts) == name
        assert all(meaning for _, meaning in parts)
    assert name_legend("gather_d9") == ()


def test_every_inner_loop_of_the_engine_is_explained() -> None:
    """The names come from the engine's sources."""
    folder = SOURCES.with_name("cpu_kernels")
    copies = (folder / "copy_loops.c").read_text().partition("choose_copy, ISA)(")[2]
    (kinds,) = re.findall(r"names\[\] = \{(.*?)\}", (folder / "plan.c").read_text())
    names = {name.removeprefix("streamed ") for name in re.findall(r'"([a-z][a-z -]+)"', copies + kinds)}
    assert len(names) > 10
    assert names | {"looked-up parts, …"} == {name for name, _ in CPU_LOOPS}


def test_a_kernel_name_is_explained_by_its_parts() -> None:
    assert dict(name_legend("gather_d3_k1_e16_i8_checked_once")) == {
        "gather": "copies from places that are looked up",
        "d3": "3 dimensions of threads; along one more, each thread walks: it moves several elements",
        "k1": "1 lookup for each element",
        "e16": "16 bytes in an element",
        "i8": "8 bytes in an index",
        "checked": "compiled for FILL and RAISE: it notices an index out of range",
        "once": "a thread resolves its indices once, as they are the same along its whole walk",
    }


def test_every_term_occurs_in_an_explanation() -> None:
    found = {shown for text in texts() for shown, _ in legend(text)}
    assert {term.shown for term in TERMS} - found == set()


def test_a_legend_explains_only_terms_of_its_text() -> None:
    sliced = dict(legend(str(dg.compile(EXAMPLES[-1].desc).explain())))
    gathered = dict(legend(str(dg.compile(rows((4, 3), 2)).explain())))
    assert "shape [n, …]" in sliced
    assert "lookup n: TYPE [m]" not in sliced
    assert "CLAMP" not in sliced
    assert {"lookup n: TYPE [m]", "CLAMP", "wrap n", "in stride n"} <= gathered.keys()
    assert "FILL" not in gathered


def test_every_line_of_an_explanation_has_an_explained_term() -> None:
    for text in texts():
        for line in text.splitlines()[1:]:
            assert any(re.search(term.pattern, line) for term in TERMS) or re.fullmatch(r" +\(.*\)", line), line


def test_an_explanation_prints_its_own_legend() -> None:
    printed = dg.compile(rows((4, 3), 2)).explain().legend().splitlines()
    assert printed[0] == "legend"
    assert max(map(len, printed)) <= 120
    assert any(re.fullmatch(r"    k1 +1 lookup for each element", line) for line in printed)
