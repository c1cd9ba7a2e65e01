"""Open questions: each is about one property, its answers differ, and the page lists them."""

from __future__ import annotations

import re

import pytest

from conformance.questions import REFUSED, Question, open_questions
from dmlgather.directml import SOURCES, FeatureLevel, Severity, minimum_level, validate

ALL = open_questions(max(FeatureLevel))


@pytest.mark.parametrize("asked", ALL, ids=lambda asked: asked.key)
def test_a_question_leaves_one_thing_open(asked: Question) -> None:
    report = validate(asked.desc, level=asked.level)
    refused = asked.decided == REFUSED and not asked.in_place
    assert len({finding.code for finding in report.findings if finding.severity is Severity.ERROR}) == int(refused), str(report)
    if not refused:
        assert minimum_level(asked.desc) is asked.level


@pytest.mark.parametrize("asked", ALL, ids=lambda asked: asked.key)
def test_the_answers_of_a_question_have_different_outputs(asked: Question) -> None:
    outcomes = [None if answer.values is None else answer.values.tobytes() for answer in asked.answers]
    assert len(set(outcomes)) == len(outcomes) == len({answer.means for answer in asked.answers}) >= 2
    assert all((answer.means == REFUSED) is (answer.values is None) for answer in asked.answers)
    tensor = asked.desc.tensor(asked.desc.operator.output)
    assert {answer.values.size for answer in asked.answers if answer.values is not None} <= {tensor.elements}


def test_names_are_short_and_differ() -> None:
    keys = [asked.key for asked in ALL]
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"[a-z0-9-]{3,24}", key) for key in keys)


def test_the_sources_of_questions_are_known() -> None:
    named = {key for asked in ALL for key in re.findall(r"\[([A-Z0-9-]+)\]", asked.source)}
    assert named <= set(SOURCES)
    assert all(re.match(r"\[", asked.source) for asked in ALL)


def test_older_levels_have_fewer_questions() -> None:
    counts = {str(level): len(open_questions(level)) for level in FeatureLevel}
    assert counts["1_0"] == counts["2_0"] == 0 < counts["2_1"] < counts["3_0"] == len(ALL)
    for asked in open_questions(FeatureLevel.LEVEL_2_1):
        assert all(asked.desc.tensor(field).rank == 4 for field in asked.desc.operator.tensors)
