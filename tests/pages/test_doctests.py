"""Examples in docstrings are code to Markdown (judge: markdown-it), and the same examples to Python (judge: doctest)."""

from __future__ import annotations

import doctest
import inspect

import pytest
from markdown_it import MarkdownIt

from ci.pages.doctests import fenced
from tests.test_docstrings import PUBLIC


def docstrings() -> dict[str, str]:
    """The docstring of each public name, and of the methods of its class, that has an example."""
    found = {name: inspect.getdoc(value) for name, value in PUBLIC.items()}
    for name, value in PUBLIC.items():
        if inspect.isclass(value):
            methods = ((member, each) for member, each in vars(value).items() if inspect.isroutine(each))
            found |= {f"{name}.{member}": inspect.getdoc(each) for member, each in methods if not member.startswith("_")}
    return {name: text for name, text in found.items() if text is not None and ">>>" in text}


DOCSTRINGS = docstrings()


def examples(text: str) -> list[tuple[str, str]]:
    return [(each.source, each.want) for each in doctest.DocTestParser().get_examples(text)]


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_examples_are_code(name: str) -> None:
    tokens = MarkdownIt().parse(fenced(DOCSTRINGS[name]))
    code = [token for token in tokens if token.type == "fence"]
    assert {token.info for token in code} == {"python"}
    assert [each for token in code for each in examples(token.content)] == examples(DOCSTRINGS[name])
    assert "blockquote_open" not in {token.type for token in tokens}


def test_many_docstrings_have_examples() -> None:
    assert len(DOCSTRINGS) > 50
    assert any(token.type == "blockquote_open" for token in MarkdownIt().parse(DOCSTRINGS["dmlgather.validate"]))


def test_text_stays_and_neighbours_are_one_block() -> None:
    assert fenced("Text.\n\n>>> 1\n1\n\n>>> 2\n2\n\nMore.") == "Text.\n\n```python\n>>> 1\n1\n\n>>> 2\n2\n```\n\nMore."
    assert fenced("Text, > 1.\n\nMore.") == "Text, > 1.\n\nMore."
