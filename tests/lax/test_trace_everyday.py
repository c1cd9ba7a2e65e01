"""What twelve everyday indexing expressions turn into, fact by fact; and that their plans give JAX's bytes."""

from __future__ import annotations

import pytest

import dmlgather as dg
from dmlgather.plan import IndexType
from tests import seeds
from tests.lax.everyday import EXPRESSIONS, Expression
from tests.lax.executing import executed


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda expression: expression.title)
def test_plans_costs_and_operators(expression: Expression) -> None:
    trace = dg.lax.trace(expression.fn, *expression.arguments(seeds.numpy_rng()))
    assert [entry.equation for entry in trace] == [fact.equation for fact in expression.facts]
    for entry, fact in zip(trace, expression.facts, strict=True):
        assert (entry.policy, str(entry.directml), entry.where) == (fact.policy, fact.directml, fact.where)
        plan = entry.plan
        assert plan is not None
        assert (plan.shape, plan.in_strides, plan.in_offset) == (fact.shape, fact.in_strides, fact.in_offset)
        assert tuple(lookup.limit for lookup in plan.lookups) == fact.limits
        assert tuple(lookup.in_stride for lookup in plan.lookups) == fact.steps
        assert all(lookup.wrap == 0 for lookup in plan.lookups)
        assert plan.index_type is (IndexType.INT32 if fact.limits else None)
        assert entry.bytes_moved is not None
        assert entry.bytes_moved.total == fact.bytes
        assert entry.source is not None
        assert entry.source.file.endswith("everyday.py")


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda expression: expression.title)
def test_executed_on_fresh_data_every_plan_gives_jaxs_bytes(expression: Expression) -> None:
    trace = executed(expression.fn, *expression.arguments(seeds.numpy_rng()))
    assert trace.equal
    for entry, fact in zip(trace, expression.facts, strict=True):
        assert (entry.runs.count, entry.runs.equal) == (fact.runs, True if fact.runs else None)
