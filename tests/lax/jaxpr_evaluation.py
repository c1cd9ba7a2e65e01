"""A jaxpr, evaluated with JAX equation by equation, so that a caller sees what each equation reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from dmlgather.lax.tracing import jaxprs
from dmlgather.lax.tracing.jaxprs import Place

Observer = Callable[[Place, Any, Sequence[Any], Sequence[Any]], None]
"""Called after an equation with its place, the equation, the values that it read and those that it wrote."""


class JaxprEvaluator:
    """Evaluates a jaxpr. Enters calls, conditionals and loops around the observed equations; JAX evaluates the rest.

    places: of the observed equations. observer: called each time that one of them has run.
    """

    def __init__(self, places: Collection[Place], observer: Observer) -> None:
        self._places = frozenset(places)
        self._outer = frozenset((*place[:depth], (place[depth][0], "")) for place in places for depth in range(len(place) - 1))
        self._observer = observer
        self._not_entered: dict[Place, str] = {}

    def run(self, jaxpr: Any, values: Sequence[Any], around: Place = ()) -> list[Any]:
        """The values of a jaxpr's results."""
        inner, consts = jaxprs.opened(jaxpr)
        known = dict(zip((*inner.constvars, *inner.invars), (*consts, *values), strict=True))

        def read(atoms: Sequence[Any]) -> list[Any]:
            return [atom.val if jaxprs.literal(atom) else known[atom] for atom in atoms]

        for number, eqn in enumerate(inner.eqns):
            place = (*around, (number, ""))
            inputs = read(eqn.invars)
            enter = ENTERED.get(eqn.primitive.name) if place in self._outer else None
            results = enter(self, place, eqn, inputs) if enter else None
            if results is None:
                results = jaxprs.bind(inner, eqn, inputs)
                if place in self._outer:
                    self._not_entered[place] = f"{jaxprs.primitive_name(eqn)} around it was evaluated as a whole"
            if place in self._places:
                self._observer(place, eqn, inputs, results)
            known.update(zip(eqn.outvars, results, strict=True))
        return read(inner.outvars)

    def why_not_run(self, place: Place) -> str:
        """Why an equation has not run."""
        around = (
            prefix for depth, (number, _) in enumerate(place) for prefix in ((*place[:depth], (number, "")), place[: depth + 1])
        )
        return next((self._not_entered[each] for each in around if each in self._not_entered), "these values do not lead to it")

    def _enter(self, place: Place, label: str, jaxpr: Any, values: Sequence[Any]) -> list[Any]:
        return self.run(jaxpr, values, (*place[:-1], (place[-1][0], label)))

    def call(self, place: Place, eqn: Any, inputs: Sequence[Any]) -> list[Any] | None:
        """One jaxpr on the same values."""
        called = jaxprs.called(eqn)
        return None if called is None else self._enter(place, *called, inputs)

    def linear_solve(self, place: Place, eqn: Any, inputs: Sequence[Any]) -> list[Any]:
        """The jaxpr that solves; the others are those of derivatives."""
        parts = jaxprs.parts(eqn)
        solve = next(label for label in parts if label.endswith(".solve"))
        for label in parts.keys() - {solve}:
            self._not_entered[(*place[:-1], (place[-1][0], label))] = f"{eqn.primitive.name} runs it for derivatives alone"
        counts = eqn.params["const_lengths"]
        first = counts.matvec + counts.vecmat
        consts, right_hand_sides = inputs[first : first + counts.solve], inputs[sum(counts) :]
        return self._enter(place, solve, parts[solve], [*consts, *right_hand_sides])

    def cond(self, place: Place, eqn: Any, inputs: Sequence[Any]) -> list[Any]:
        """The branch that the first value names."""
        index, *values = inputs
        branches = list(jaxprs.parts(eqn).items())
        label, body = branches[min(max(int(index), 0), len(branches) - 1)]
        return self._enter(place, label, body, values)

    def while_loop(self, place: Place, eqn: Any, inputs: Sequence[Any]) -> list[Any]:
        """The body while the condition holds; under vmap while it holds for any batch, with the state of the others kept."""
        numpy = jaxprs.library().numpy
        (test_label, test), (body_label, body) = (
            next((label, part) for label, part in jaxprs.parts(eqn).items() if part is eqn.params[name])
            for name in ("cond_jaxpr", "body_jaxpr")
        )
        first, second = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        for_test, for_body = inputs[:first], inputs[first : first + second]
        state = list(inputs[first + second :])
        while numpy.any(holds := self._enter(place, test_label, test, [*for_test, *state])[0]):
            later = self._enter(place, body_label, body, [*for_body, *state])
            if holds.ndim:
                later = [numpy.where(_leading(holds, new.ndim), new, old) for new, old in zip(later, state, strict=True)]
            state = later
        return state

    def scan(self, place: Place, eqn: Any, inputs: Sequence[Any]) -> list[Any] | None:
        """The body, once per position along the first dimension of what is scanned. JAX evaluates a scan of length 0."""
        params = eqn.params
        if params["length"] == 0:
            return None
        numpy = jaxprs.library().numpy
        ((label, body),) = jaxprs.parts(eqn).items()
        first, carried = _scan_counts(eqn)
        consts, state, scanned = inputs[:first], list(inputs[first : first + carried]), inputs[first + carried :]
        rows: dict[int, list[Any]] = {}
        for position in range(params["length"])[:: -1 if params["reverse"] else 1]:
            results = self._enter(place, label, body, [*consts, *state, *(array[position] for array in scanned)])
            state, rows[position] = results[:carried], results[carried:]
        ordered = (rows[position] for position in range(params["length"]))
        return [*state, *(numpy.stack(values) for values in zip(*ordered, strict=True))]


def _scan_counts(eqn: Any) -> tuple[int, int]:
    """How many inputs of a scan are constants, and how many are carried from step to step."""
    if "num_consts" in eqn.params:
        return eqn.params["num_consts"], eqn.params["num_carry"]
    consts, carried, _ = eqn.params["ft_in"].unpack()  # from JAX 0.12 on
    return len(consts), len(carried)


def _leading(holds: Any, rank: int) -> Any:
    """A condition per batch, of a shape that broadcasts to arrays of that rank."""
    return holds.reshape(holds.shape + (1,) * (rank - holds.ndim))


ENTERED: Mapping[str, Callable[[JaxprEvaluator, Place, Any, Sequence[Any]], list[Any] | None]] = {
    **dict.fromkeys(jaxprs.CALLS, JaxprEvaluator.call),
    "custom_linear_solve": JaxprEvaluator.linear_solve,
    "cond": JaxprEvaluator.cond,
    "while": JaxprEvaluator.while_loop,
    "scan": JaxprEvaluator.scan,
}
"""How the primitives that are entered are evaluated; a function returns None where JAX has to evaluate the primitive."""
