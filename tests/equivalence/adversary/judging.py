"""Whether a verdict about two drafts is right. The libraries themselves judge: both programs run on hostile inputs."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import dmlgather as dg
from dmlgather.equivalence import Equivalence
from tests.equivalence.adversary.changes import changed
from tests.equivalence.adversary.drafts import OPERATORS, Array, Draft, bits, numpy_dtype
from tests.equivalence.adversary.drawing import aligned, random_draft, trials
from tests.equivalence.adversary.libraries import NotCoveredError, Outcome
from tests.peers.nans import quiet

LEFT_OUT = "left out"
"""The verdict of a pair that the libraries have no code for."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two programs: a draft in one library, and a near miss of it in the same or in another one. change: of what kind."""

    libraries: tuple[str, str]
    drafts: tuple[Draft, Draft]
    change: str
    seed: int

    def __str__(self) -> str:
        parts = [f"pair of seed {self.seed}, change {self.change!r}"]
        parts += [f"{library}:\n{draft}" for library, draft in zip(self.libraries, self.drafts, strict=True)]
        return "\n\n".join(parts)


def random_pair(seed: int, libraries: tuple[str, str]) -> Pair:
    """A pair of these libraries: onnx, jax, torch."""
    chance = random.Random(seed)
    known = [name for name in OPERATORS if all(_states(library, name) for library in libraries)]
    while True:
        draft = random_draft(chance, known)
        change, other = changed(chance, draft)
        other = Draft({**draft.inputs, **other.inputs}, other.constants, other.steps, other.outputs)
        draft = Draft(other.inputs, draft.constants, draft.steps, draft.outputs)
        if all(step.operator in known for step in other.steps) and other.steps:
            return Pair(libraries, (draft, other), change, seed)


def _states(library: str, operator: str) -> bool:
    module = importlib.import_module(f"tests.equivalence.adversary.in_{library}")
    tables = (module.WRITERS,) if library == "onnx" else (module.OPERATORS, module.WITH_ATTRIBUTES)
    return any(operator in table for table in tables)


def _module(library: str) -> Any:
    return importlib.import_module(f"tests.equivalence.adversary.in_{library}")


def judged(pair: Pair) -> str:
    """The verdict, or LEFT_OUT. AssertionError, with the programs and the inputs, where it is wrong."""
    programs = [_module(library).program(draft) for library, draft in zip(pair.libraries, pair.drafts, strict=True)]
    found = verdict(pair, programs)
    if found.verdict == "not proven" or (found.counterexample is None and found.verdict == "different"):
        kinds = [[draft.types()[name] for name in draft.outputs] for draft in pair.drafts]
        assert found.verdict == "not proven" or kinds[0] != kinds[1], wrong(pair, found, "the types of the outputs are equal")
        return found.verdict
    inputs = list(trials(random.Random(pair.seed), pair.drafts[0]))
    if found.counterexample is not None:
        inputs = [dict(zip(pair.drafts[0].inputs, map(aligned, found.counterexample.inputs.values()), strict=True))]
    assumed = any(words.endswith("give the same bits") for words in found.assumptions)  # others say that a step raises nothing
    mixed = pair.libraries[0] != pair.libraries[1]
    assert not assumed or mixed, wrong(pair, found, "a proof about one library assumes nothing of what operators give")
    try:
        run = _both(pair, programs, inputs[0], standing_in=assumed)
        outcomes = [run(arrays) for arrays in inputs]
    except NotCoveredError:
        return LEFT_OUT
    lost = "jax" in pair.libraries
    differing = [k for k, (one, other) in enumerate(outcomes) if content(one, lost=lost) != content(other, lost=lost)]
    if bool(differing) == (found.verdict == "proven"):
        k = (differing or [0])[0]
        raise AssertionError(wrong(pair, found, f"the programs {'' if differing else 'do not '}differ", inputs[k], outcomes[k]))
    return found.verdict


def _both(
    pair: Pair, programs: list[Any], arrays: Mapping[str, Array], *, standing_in: bool
) -> Callable[[Mapping[str, Array]], tuple[Outcome, Outcome]]:
    """Runs both programs. ONNX's reference evaluator runs models where onnxruntime has no code for one of them.

    standing_in: stand-ins do what proofs may assume of operators.
    """
    ways = (False, True) if "onnx" in pair.libraries else (False,)
    for reference in ways:
        try:
            runners = [
                _module(library).runner(
                    program, standing_in=standing_in, **({"reference": reference} if library == "onnx" else {})
                )
                for library, program in zip(pair.libraries, programs, strict=True)
            ]
            for each in runners:
                each(arrays)
        except NotCoveredError:
            if reference == ways[-1]:
                raise
        else:
            break
    return lambda arrays: (runners[0](arrays), runners[1](arrays))


def verdict(pair: Pair, programs: list[Any]) -> Equivalence:
    """What `equivalent` says. Of tensors of PyTorch, one is the example of all arguments of its type."""
    examples: list[Any] = []
    if pair.libraries != ("onnx", "onnx"):
        kinds = pair.drafts[0].inputs
        examples = [(kind.shape, kind.dtype) for kind in kinds.values()]
        if "torch" in pair.libraries:
            made = {kind: _module("torch").tensor(np.zeros(kind.shape, numpy_dtype(kind.dtype))) for kind in kinds.values()}
            examples = [made[kind] for kind in kinds.values()]
    if "jax" not in pair.libraries:
        return dg.equivalent(*programs, *examples)
    import jax

    with jax.enable_x64(True):
        if "torch" in pair.libraries:  # a function of JAX beside tensors of PyTorch says by jax.jit whose it is
            programs = [
                jax.jit(each) if library == "jax" else each for library, each in zip(pair.libraries, programs, strict=True)
            ]
        return dg.equivalent(*programs, *examples)


def content(outcome: Outcome, *, lost: bool) -> object:
    """What of an outcome must be equal: types, shapes and every bit. lost: payloads and subnormal numbers of bfloat16 are not
    compared, because XLA moves some of them by way of float32 on CPUs (tests/peers/jax.py).
    """
    if isinstance(outcome, str):
        return outcome
    return [(array.dtype, array.shape, (_without_payloads if lost else quiet)(array).tobytes()) for array in outcome]


def _without_payloads(array: Array) -> Array:
    if array.dtype.name != "bfloat16":
        return quiet(array)
    wide = array.astype(np.float32)
    wide = np.where(np.abs(wide) < 2.0**-126, np.copysign(np.float32(0), wide), wide)
    return np.where(np.isnan(wide), np.array(np.nan, array.dtype), wide.astype(array.dtype))


def wrong(
    pair: Pair,
    found: Equivalence,
    what: str,
    inputs: Mapping[str, Array] | None = None,
    outcomes: tuple[Outcome, Outcome] | None = None,
) -> str:
    """What is wrong of a verdict, with all that repeats it."""
    lines = [f"{found.verdict}, but {what}", str(found), str(pair)]
    lines += [f"{name} = {array.dtype}{list(array.shape)} {bits(array)}" for name, array in (inputs or {}).items()]
    for side, outcome in zip(("first", "second"), outcomes or (), strict=False):
        told = (
            outcome if isinstance(outcome, str) else "; ".join(f"{each.dtype}{list(each.shape)} {bits(each)}" for each in outcome)
        )
        lines.append(f"the {side} program: {told}")
    return "\n".join(lines)
