"""What all libraries that run drafts share."""

from __future__ import annotations

from tests.equivalence.adversary.drafts import Array

RAISED = "raised"
"""In the place of the outputs, where an index out of range was refused."""

Outcome = list[Array] | str


class NotCoveredError(Exception):
    """The library has no code for an operator of these types."""
