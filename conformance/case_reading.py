"""Comparison of the results in a folder of cases with those of the CPU backend."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from conformance.case_files import (
    MODELS,
    POISON,
    RESULTS,
    Returned,
    StoredCase,
    digests,
    inside,
    read_case,
    read_returned,
    result_bytes,
)
from conformance.conformance_report import CaseOutcome, ConformanceReport, OperatorTally, Outcome, SettledQuestion
from conformance.expected import computed, output_of
from conformance.manifest import FILE, CaseQuestion, ConformanceCase, Manifest
from conformance.questions import REFUSED
from dmlgather.comparing.comparison import tracer
from dmlgather.comparing.differences import differences
from dmlgather.comparing.dispatches import check_descriptor_memory
from dmlgather.directml import DescriptorError, FeatureLevel, OperatorDesc
from dmlgather.directml.elements import dtype_of
from dmlgather.directml.fields import wire_name
from dmlgather.files import FileError, read_text
from dmlgather.record import placed
from dmlgather.wording import counted, spelled

DEVICES = ("dmlgather", "DirectML")
"""Names of both sides in a difference."""

SHOWN = 8
"""Largest number of elements of an unknown answer that are shown."""


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder of cases. Raises FileError if it is missing or invalid."""
    path = inside(folder, FILE)
    try:
        return Manifest.model_validate_json(read_text(path))
    except FileError as error:
        raise FileError(f"{path} {error}: name a folder that `python -m conformance write` has written") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        newer = "; read it with the version of dmlgather that wrote it" if first["loc"] == ("format",) else ""
        raise FileError(f"{path} is no manifest of cases: {placed(first)}{newer}") from None


def read_results(folder: Path, version: str) -> ConformanceReport:
    """Compare the results in a folder of cases with dmlgather's.

    Raises FileError if the manifest is invalid, if a model or an input was changed, or if there are no results; TooLargeError
    if a case needs more memory than is free.
    """
    manifest = read_manifest(folder)
    try:
        level = FeatureLevel.parse(manifest.level)
    except ValueError as error:
        raise FileError(f"{folder / FILE} is no manifest of cases: {error}") from None
    _check_files(folder, manifest)
    cases = [_read(folder, case) for case in manifest.cases]
    if all(case.returned.ending.kind == "missing" and case.returned.result is None for case in cases):
        raise FileError(f"{folder} holds no results yet: run its run.cmd on Windows (or run.sh), and name the folder again")
    outcomes = [_outcome(folder, case, level, manifest) for case in cases if case.case.question is None]
    ran = any(outcome.outcome in ("equal", "different") for outcome in outcomes) or not outcomes
    return ConformanceReport(
        version=version,
        written_by=manifest.version,
        level=manifest.level,
        seed=manifest.seed,
        adapters=tuple(dict.fromkeys(case.returned.adapter for case in cases if case.returned.adapter is not None)),
        operators=_tallies(outcomes),
        cases=tuple(outcome for outcome in outcomes if outcome.outcome != "equal"),
        questions=tuple(_settled(case, case.case.question, ran) for case in cases if case.case.question is not None),
    )


def _check_files(folder: Path, manifest: Manifest) -> None:
    """Raise FileError if a file of the folder is not the one in the manifest."""
    for case in manifest.cases:
        try:
            current = digests(folder, list(case.files))
        except FileError as error:
            raise FileError(f"{error}: {_remedy(manifest)}") from None
        for name, digest in current.items():
            if digest != case.files[name]:
                raise FileError(f"{folder / MODELS / name} is not the file that was written: {_remedy(manifest)}")
    names = {case.name for case in manifest.cases}
    for path in sorted([*folder.glob(f"{MODELS}/*.json"), *folder.glob(f"{RESULTS}/*.exit")]):
        if path.stem not in names:
            raise FileError(f"{folder / FILE} does not name the case of {path}: {_remedy(manifest)}")


def _remedy(manifest: Manifest) -> str:
    number = sum(case.question is None for case in manifest.cases)
    return (
        f"restore the file, or write the cases again with dmlgather {manifest.version} (`python -m conformance write NEW --cases "
        f"{number} --level {manifest.level} --seed {manifest.seed}`) and move the folder {RESULTS} there"
    )


class _ReadCase(NamedTuple):
    case: ConformanceCase
    stored: StoredCase
    returned: Returned


def _read(folder: Path, case: ConformanceCase) -> _ReadCase:
    stored = read_case(folder, case.name)
    check_descriptor_memory(f"what {folder / MODELS / case.name}.json computes", stored.desc, ["cpu"], None)
    return _ReadCase(case, stored, read_returned(folder, case.name, result_bytes(stored.desc)))


def _failure(returned: Returned, desc: OperatorDesc) -> tuple[Outcome, str] | None:
    """Return the outcome and a message for a case without a result of the right size; None for any other case."""
    kind, message = returned.ending
    if kind == "missing" and returned.result is not None:
        return "missing", "it was not run to its end: the script noted no exit code"
    if kind != "ended":
        return kind, message
    if returned.result is None:
        return "failed", f"{message}, but there is no result"
    expected = result_bytes(desc)
    if returned.result.size != expected:
        size = f"more than {expected}" if returned.result.size > expected else str(returned.result.size)
        return "different", f"the result has {size} bytes, and not the {expected} of the output's buffer"
    return None


def _outcome(folder: Path, read: _ReadCase, level: FeatureLevel, manifest: Manifest) -> CaseOutcome:
    case, stored, returned = read
    names = {"case": case.name, "operator": case.operator}
    failure = _failure(returned, stored.desc)
    if failure is not None:
        return CaseOutcome.model_validate({**names, "outcome": failure[0], "message": failure[1]})
    try:
        expected, operator = computed(stored, level)
        _check_whole_elements(stored)
    except (DescriptorError, ValueError) as error:
        reason = "; ".join(str(error).splitlines())
        raise FileError(f"{folder / MODELS / case.name}.json cannot be run at level {level}: {reason}") from None
    if sha256(expected.tobytes()).hexdigest() != case.expected:
        raise FileError(
            f"{folder / FILE} has another digest for the output of {case.name} than dmlgather computes now: the file was changed "
            f"after dmlgather {manifest.version} wrote it, or this version computes otherwise; {_remedy(manifest)}"
        )
    assert returned.result is not None
    output = output_of(stored.desc, returned.result)
    inputs = [data.view(_type(stored.desc, number)) for number, data in enumerate(stored.inputs)]
    trace = partial(tracer, operator, inputs, buffers=True)
    differing = differences(DEVICES, [expected, output], trace)
    if not differing:
        return CaseOutcome.model_validate({**names, "outcome": "equal"})
    return CaseOutcome.model_validate({**names, "outcome": "different", "difference": differing[0]})


def _check_whole_elements(stored: StoredCase) -> None:
    for number, data in enumerate(stored.inputs):
        width = _type(stored.desc, number).itemsize
        if data.size % width:
            name = wire_name(stored.desc.operator.inputs[number])
            size = counted(data.size, "byte")
            raise ValueError(f"the file of {name} holds {size}, and an element has {width}: restore the file")


def _type(desc: OperatorDesc, number: int) -> np.dtype[Any]:
    return dtype_of(desc.tensor(desc.operator.inputs[number]).data_type)


def _tallies(outcomes: Sequence[CaseOutcome]) -> tuple[OperatorTally, ...]:
    names = list(dict.fromkeys(case.operator for case in outcomes))
    kinds = get_args(Outcome)
    return tuple(
        OperatorTally(
            operator=name,
            **{kind: sum(case.operator == name and case.outcome == kind for case in outcomes) for kind in kinds},
        )
        for name in names
    )


def _settled(read: _ReadCase, question: CaseQuestion, ran: bool) -> SettledQuestion:
    """Return the answer to a question. `ran`: True if DirectML ran another case, so that a refusal is an answer."""
    case, stored, returned = read
    answer: str | None = None
    message: str | None = None
    failure = _failure(returned, stored.desc)
    if failure is None:
        assert returned.result is not None
        answer = _answer(question, stored.desc, returned.result)
    elif failure[0] == "refused" and ran:
        answer, message = REFUSED, failure[1]
    else:
        message = failure[1] if failure[0] != "refused" else f"{failure[1]}; no other case ran either"
    return SettledQuestion(
        case=case.name,
        operator=case.operator,
        asks=question.asks,
        answer=answer,
        decided=question.answers[0].means,
        message=message,
    )


def _answer(question: CaseQuestion, desc: OperatorDesc, result: NDArray[np.uint8]) -> str:
    """Return the known answer that the result equals, else a text with the first elements."""
    output = output_of(desc, result)
    for answer in question.answers:
        if answer.bits == output.tobytes().hex():
            return answer.means
    if (output.reshape(-1).view(np.uint8) == POISON).all():
        return "nothing is written"
    flat = output.reshape(-1)
    first = ", ".join(map(spelled, flat[:SHOWN]))
    return f"none of the known answers; the output is {first}{', …' if flat.size > SHOWN else ''}"
