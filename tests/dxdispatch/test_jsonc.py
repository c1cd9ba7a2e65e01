"""The JSON reader against Python's own, and every way a text can fail to be JSON, with the place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgather.directml.dxdispatch.jsonc import DEPTH_LIMIT, Document, JsonError
from dmlgather.files import Position

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    found = [(path, value)]
    if isinstance(value, dict):
        for key, item in value.items():
            found += _paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += _paths(item, (*path, index))
    return found


@given(values, st.sampled_from([None, 0, 3]), st.booleans())
def test_reads_what_the_standard_library_writes(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    found = Document(text).value
    assert found == json.loads(text)
    assert json.dumps(found) == json.dumps(json.loads(text))  # tells 1 from 1.0 from true


@given(values, st.sampled_from([None, 2]))
def test_positions_are_where_the_values_begin(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    document = Document(text)
    lines = text.split("\n")
    for path, expected in _paths(value):
        line, column = document.position(path)
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        assert json.JSONDecoder().raw_decode(rest)[0] == expected


def test_comments_and_trailing_commas() -> None:
    document = Document('// model\n{ /* a\n b */ "Sizes": [1, 2, /* */ 3,], // dims\n "text": "// no comment",\n}\n//')
    assert document.value == {"Sizes": [1, 2, 3], "text": "// no comment"}
    assert document.position(("Sizes", 2)) == Position(3, 29)
    assert document.position(("Sizes",), key=True) == Position(3, 7)
    assert document.position(("Sizes", 7, "x")) == document.position(("Sizes",))


def test_whole_numbers_are_exact() -> None:
    assert Document("[18446744073709551615, -9223372036854775808, 1" + "0" * 300 + "]").value == [2**64 - 1, -(2**63), 10**300]
    assert repr(Document("[-0.0, 1e2, 0.1]").value) == "[-0.0, 100.0, 0.1]"


def test_escapes() -> None:
    assert Document(r'"\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t"').value == 'é😀"\\/\b\f\n\r\t'


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("", 1, 1, "empty"),
        (" \n ", 1, 1, "empty"),
        ("// only a remark", 1, 1, "empty"),
        ("{", 1, 2, "cut off"),
        ('{"a": [1,\n 2', 2, 3, "cut off"),
        ('{"a"', 1, 5, "cut off"),
        ('{"a":', 1, 6, "cut off"),
        ('["abc', 1, 2, "the file ends inside the string"),
        ("[1] /* x", 1, 5, "this '/'"),
        ("/* x", 1, 1, "inside the comment"),
        ("{'a': 1}", 1, 2, "key in double quotes or '}', got \"'\""),
        ("{a: 1}", 1, 2, "got 'a'"),
        ('{"a" 1}', 1, 6, "':' after the key 'a', got '1'"),
        ('{"a": 1 "b": 2}', 1, 9, "',' or '}'"),
        ("[1 2]", 1, 4, "',' or ']', got '2'"),
        ("[1,,2]", 1, 4, "got ','"),
        ("{,}", 1, 2, "got ','"),
        ("[1]]", 1, 4, "one value"),
        ('{"a": 1, "b": 2,\n "a": 3}', 2, 2, "'a' appears twice"),
        ("[NaN]", 1, 2, '"nan"'),
        ("[-Infinity]", 1, 2, '"-inf"'),
        ("[1, inf]", 1, 5, '"inf"'),
        ("[01]", 1, 2, "01 is not a number in JSON"),
        ("[+1]", 1, 2, "+1 is not a number"),
        ("[.5]", 1, 2, ".5 is not a number"),
        ("[1.]", 1, 2, "1. is not a number"),
        ("[0x10]", 1, 2, "0x10 is not a number"),
        ("[1e999]", 1, 2, "too large"),
        ("[" + "7" * 401 + "]", 1, 2, "401 digits"),
        ("[tru]", 1, 2, "got 'tru'"),
        ("[True]", 1, 2, "got 'True'"),
        (r'["\ud800"]', 1, 2, "surrogate"),
        (r'["\udc00\ud800"]', 1, 2, "surrogate"),
        (r'["a\x"]', 1, 4, "not an escape"),
        ('["a\tb"]', 1, 4, "U+0009"),
        ('["a\nb"]', 1, 4, "U+000A"),
        ("\x00", 1, 1, "U+0000"),
        ("[1,\ufeff2]", 1, 4, "U+FEFF"),
    ],
)
def test_texts_that_are_no_json_are_refused(text: str, line: int, column: int, says: str) -> None:
    with pytest.raises(JsonError) as caught:
        Document(text)
    assert (caught.value.position, says in str(caught.value)) == (Position(line, column), True), str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":['])
def test_depth_has_a_limit(opening: str) -> None:
    closing = "".join({"[": "]", "{": "}"}[character] for character in reversed(opening) if character in "[{")
    deep = DEPTH_LIMIT // len(closing)
    assert Document(opening * deep + "1" * (opening[-1] != "[") + closing * deep).value
    with pytest.raises(JsonError, match=f"more than {DEPTH_LIMIT} deep"):
        Document(opening * 10**7)


@pytest.mark.parametrize(
    "text",
    ['"' + "\\n" * 10**6, "/*" + "*" * 10**6, "1" * 10**6, "//" * 10**6, "[" + "1," * 10**5 + "}", "-" * 10**6, "a" * 10**6],
    ids=["string", "comment", "digits", "slashes", "array", "dashes", "word"],
)
def test_long_nonsense_is_refused(text: str) -> None:  # a regular expression that backtracks would never end
    with pytest.raises(JsonError):
        Document(text)


@pytest.mark.slow
def test_a_million_numbers() -> None:
    numbers = list(range(-500_000, 500_000))
    document = Document(json.dumps({"values": numbers}))
    assert document.value == {"values": numbers}
    assert document.position(("values", 1)).column == len('{"values": [-500000, ') + 1
