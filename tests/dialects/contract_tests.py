"""The contract that every dialect fills in: the live library, the specification and every device agree on random calls."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlgather as dg
from dmlgather.directml import FeatureLevel
from tests.dialects import binding
from tests.dialects.binding import LEVELS
from tests.dialects.contract import Dialect, Exported, as_it_is
from tests.dialects.drafting import Fault, at_an_odd_address, seeds
from tests.dialects.outcomes import Array, Refusal, check_broken, check_good, content, outcome
from tests.gpus import NUMBERS, host, placed
from tests.peers.faults import PeerFault, leaving_out_at_most


def said(dialect: Dialect, call: Any, **more: Any) -> object:
    """A result's content, or an exception's type and text."""
    try:
        found = dialect.run(call, **more)
    except (IndexError, TypeError, ValueError) as error:
        return type(error), str(error)
    return content(host(found))


def packed(array: Array) -> Array:
    """A copy that lies in memory as the copy on a GPU does; of several bad indices, the first in memory is named."""
    return np.array(array, order="C")


class CallsContract:
    """Random calls give the same bits, or the same refusal, everywhere."""

    dialect: ClassVar[Dialect]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        dialect = self.dialect
        if "fault" in metafunc.fixturenames:
            cases = [pytest.param(row, each, id=f"{row}-{each.name}") for row in dialect.rows for each in dialect.faults(row)]
            metafunc.parametrize(("row", "fault"), cases)
        elif "row" in metafunc.fixturenames:
            metafunc.parametrize("row", dialect.rows)
        elif "peer_fault" in metafunc.fixturenames:
            faults = [fault for peer in dialect.peers for fault in peer.faults]
            metafunc.parametrize("peer_fault", faults, ids=[fault.title for fault in faults])

    @pytest.mark.slow
    def test_good_calls_give_what_library_and_specification_say(self, row: Any) -> None:
        dialect = self.dialect

        @settings(max_examples=dialect.examples[0], deadline=None)
        @given(seeds)
        def check(seed: int) -> None:
            calls = [dialect.good(seed + number, row) for number in range(dialect.together)]
            for call in calls:
                right = dialect.expected(call)
                check_good(call, right, dialect.arrays(call), dialect.run)
                assert content(outcome(dialect.run, call, at_an_odd_address)) == content(right), str(call)
            judged = [call for call in calls if dialect.is_judged(call)]
            for call, verdict in zip(judged, dialect.judge(judged) if judged else (), strict=True):
                assert not isinstance(verdict, Refusal), f"{call}: {verdict.message}"
                right = dialect.expected(call)
                assert dialect.as_judged(call, right) == dialect.as_judged(call, verdict), (
                    f"the specification of {call}: {verdict!r}"
                )

        with leaving_out_at_most(dialect.left_out[0]):
            check()

    def test_every_fault_is_refused_alike_by_all(self, row: Any, fault: Fault) -> None:
        dialect = self.dialect

        @settings(max_examples=dialect.examples[1], deadline=None)
        @given(seeds)
        def check(seed: int) -> None:
            call = dialect.broken(seed, row, fault)
            specified = outcome(dialect.expected, call) if dialect.states_faults else fault.raises
            verdict = dialect.judge([call])[0] if dialect.is_judged(call) else None
            check_broken(call, fault.raises, outcome(dialect.run, call), specified, verdict)
            assert said(dialect, call, device="reference") == said(dialect, call), str(call)

        check()

    def test_most_broken_calls_are_judged(self) -> None:
        dialect = self.dialect
        calls = [dialect.broken(seed, row, fault) for row in dialect.rows for fault in dialect.faults(row) for seed in range(5)]
        judged = sum(map(dialect.is_judged, calls))
        assert judged >= (1 - dialect.left_out[1]) * len(calls), f"{judged} of {len(calls)}"

    def test_a_fault_of_the_live_library_is_none_of_ours(self, peer_fault: PeerFault[Any]) -> None:
        dialect = self.dialect
        right = outcome(dialect.expected, peer_fault.example)
        for device in ("cpu", "reference"):
            assert content(outcome(dialect.run, peer_fault.example, device=device)) == content(right)

    @pytest.mark.gpu
    def test_a_gpu_gives_the_same_bits_or_the_same_error(self, row: Any) -> None:
        dialect = self.dialect
        bad_indices = [fault for fault in dialect.faults(row) if fault.raises is IndexError]

        @settings(max_examples=dialect.examples[0], deadline=None)
        @given(seeds)
        def check(seed: int) -> None:
            choice = seed % (2 * len(bad_indices) + 1)
            good = choice >= len(bad_indices)
            call = dialect.good(seed, row) if good else dialect.broken(seed, row, bad_indices[choice])
            if all(array.dtype in NUMBERS for array in dialect.arrays(call)):
                assert said(dialect, call, move=placed) == said(dialect, call, move=as_it_is), str(call)
                assert said(dialect, call, move=packed, device="cuda") == said(dialect, call, move=packed), str(call)

        check()


class ExportContract:
    """Descriptors of random calls give the right bits, or calls are refused as the documents of DirectML say."""

    dialect: ClassVar[Exported]

    @pytest.mark.slow
    def test_descriptors_give_the_bits_of_the_specification(self) -> None:
        dialect = self.dialect

        @settings(max_examples=dialect.examples, deadline=None)
        @given(seeds, st.sampled_from(LEVELS))
        def check(seed: int, level: FeatureLevel) -> None:
            call = dialect.drawn(seed, level)
            certain, possible = dialect.refusals(call, level)
            found = dialect.described(call, level)
            if not isinstance(found, dg.Report):
                assert not certain, (str(call), found)
                binding.check(found, level, dialect.expected(call), **dialect.bound(call))
                return
            codes = {finding.code for finding in found.findings}
            assert codes == certain or (len(codes) == 1 and codes <= possible), (str(call), str(found))
            assert found.level == level
            assert found.subject.startswith("DML_OPERATOR_" if codes == {"DML201"} else dialect.title)
            paths = ("InputTensor", "OutputTensor") if codes == {"DML201"} else ("", "output", *dialect.paths)
            for finding in found.findings:
                assert finding.severity == "error"
                assert finding.path.split("[")[0].split(".")[0] in paths
                assert "\n" not in str(finding)
                assert all((finding.expected, finding.got, finding.remedy, finding.source))

        check()

    @pytest.mark.slow
    def test_the_lowest_level_is_the_first_that_takes_a_call(self) -> None:
        dialect = self.dialect

        @settings(max_examples=100, deadline=None)
        @given(seeds, st.sampled_from(LEVELS))
        def check(seed: int, level: FeatureLevel) -> None:
            problem = dialect.problem(dialect.drawn(seed, level))
            reports = {each: dialect.exporter.express(problem, each) for each in FeatureLevel}
            found = dialect.exporter.lowest(problem)
            if found is None:
                assert all(isinstance(each, dg.Report) for each in reports.values())
                return
            assert reports[found[0]] == found[1]
            for each, report in reports.items():
                assert isinstance(report, dg.Report) is (each < found[0])
                if isinstance(report, dg.Report):
                    named = [finding.level for finding in report.findings]
                    assert all(level is not None and each < level for level in named), (str(report), named)
                    assert max(filter(None, named)) == found[0]

        check()
