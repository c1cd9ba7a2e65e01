"""Calls that are refused: tables of what a call raises, and what its message says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

Refusals = Mapping[type[Exception], Mapping[str, Callable[..., Any]]]
"""By the exception and the beginning of its message, in which "..." stands for any words: calls."""


def each_of(refusals: Refusals) -> pytest.MarkDecorator:
    """A mark that runs a test of call, error and message for each row of a table."""
    rows = [
        pytest.param(call, error, message, id=message) for error, calls in refusals.items() for message, call in calls.items()
    ]
    return pytest.mark.parametrize(("call", "error", "message"), rows)


def check_refused(call: Callable[..., Any], error: type[Exception], message: str, *arguments: Any) -> None:
    """The call raises that exception, and no subclass of it, with that message, of one line."""
    with pytest.raises(error) as raised:
        call(*arguments)
    text = str(raised.value)
    assert raised.type is error, text
    assert "\n" not in text
    assert begins(text, message), f"{text!r} does not begin with {message!r}"


def begins(text: str, words: str) -> bool:
    """Whether a text begins with words, in which "..." stands for any others."""
    at = 0
    for number, part in enumerate(words.split("...")):
        found = text.find(part, at)
        if found < 0 or (number == 0 and found > 0):
            return False
        at = found + len(part)
    return True
