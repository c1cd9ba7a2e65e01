"""Writing of a folder of cases: models, inputs, the scripts that run them, a README and a manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from conformance.case_files import StoredCase, write_case
from conformance.expected import computed
from conformance.manifest import FILE, CaseQuestion, ConformanceCase, Manifest, PossibleAnswer
from conformance.questions import Question, open_questions
from conformance.random_cases import random_cases
from dmlgather.directml import FeatureLevel
from dmlgather.files import FileError, described, staged, writing

SCRIPTS = Path(__file__).parent / "scripts"
"""The scripts and the README.txt that every folder gets."""

WINDOWS = (".cmd", ".ps1", ".txt")
"""Suffixes of files that get Windows' line endings."""


def write_cases(folder: Path, number: int, level: FeatureLevel, seed: int, version: str) -> Manifest:
    """Write random cases that are legal at `level`, and the level's open questions, to a new folder.

    Raises FileError if the folder is not empty or a file cannot be written. The folder is then empty.
    """
    _check_empty(folder)
    with staged(folder, ()) as stage:
        cases = (*_random(stage, number, level, seed), *(_question(stage, question) for question in open_questions(level)))
        for script in sorted(SCRIPTS.iterdir()):
            content = script.read_bytes()
            with writing(stage / script.name, ()) as stream:
                stream.write(content.replace(b"\n", b"\r\n") if script.suffix in WINDOWS else content)
        manifest = Manifest(version=version, level=str(level), seed=seed, cases=cases)
        with writing(stage / FILE, ()) as stream:
            stream.write(f"{json.dumps(manifest.model_dump(mode='json'), indent=2)}\n".encode())
    return manifest


def _check_empty(folder: Path) -> None:
    try:
        with described():
            if folder.exists() and any(folder.iterdir()):
                raise FileError("is not empty: name a new folder, so that no older result is taken for a new one")
    except FileError as error:
        raise FileError(f"{folder} {error}") from None


def _random(folder: Path, number: int, level: FeatureLevel, seed: int) -> Iterator[ConformanceCase]:
    for case_number, (desc, inputs) in enumerate(random_cases(number, level, seed), 1):
        name = f"r{case_number:05}"
        files = write_case(folder, name, desc, inputs)
        output = computed(StoredCase(desc, [values.view("u1") for values in inputs]), level).output
        digest = sha256(output.tobytes()).hexdigest()
        yield ConformanceCase(name=name, operator=desc.operator.name, files=files, expected=digest)


def _question(folder: Path, question: Question) -> ConformanceCase:
    name = f"q-{question.key}"
    files = write_case(folder, name, question.desc, question.inputs, in_place=question.in_place)
    answers = [
        PossibleAnswer(means=means, bits=None if values is None else values.tobytes().hex()) for means, values in question.answers
    ]
    stored = CaseQuestion(asks=question.asks, source=question.source, answers=tuple(answers))
    return ConformanceCase(name=name, operator=question.desc.operator.name, files=files, expected=None, question=stored)
