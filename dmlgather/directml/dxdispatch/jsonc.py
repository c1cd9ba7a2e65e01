"""Parser for JSON with comments and trailing commas, with the position of each value.

    document = Document('{"Sizes": [1, 2]} // two dimensions')
    document.value                               # plain dicts, lists, str, int, float, bool and None
    document.position(("Sizes", 1))              # Position(line=1, column=14)

Duplicate keys are refused, and integers are exact. Python's own parser reads plain JSON. The slower reader below runs only if
Python's parser refuses the text, or if someone asks for a position.
"""

from __future__ import annotations

import bisect
import json
import re
from array import array
from collections.abc import Callable, Sequence
from functools import cached_property
from math import isfinite
from typing import Any

from dmlgather.files import Position

DEPTH_LIMIT = 100
"""Deepest nesting that is read. A model needs seven levels."""

DIGITS_LIMIT = 400
"""Most digits of an integer. Integers up to float64's maximum have 309, and Python converts at most 4300."""

_BLANK = r"(?:[ \t\r\n]++|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+"
_DIGITS = r"(?P<number>-?+(?:0|[1-9][0-9]*+)(?P<fraction>(?:\.[0-9]++)?+(?:[eE][-+]?+[0-9]++)?+))(?![0-9A-Za-z_.+-])"
_CHARACTERS = r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+'

_SPACE = re.compile(_BLANK)
_NUMBER = re.compile(_DIGITS)
_ELEMENT = re.compile(_BLANK + _DIGITS + _BLANK + ",")  # one match per element: arrays of a million numbers are common
_INSIDE = re.compile(_CHARACTERS)
_STRING = re.compile(f'"({_CHARACTERS})"')
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*+")
_NUMBER_LIKE = re.compile(r"[-+.]?+[0-9A-Za-z_.+-]*+")

_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS = {"true": True, "false": False, "null": None}

Path = tuple[str | int, ...]
"""Keys and indices that lead from the root of a JSON text to a value."""


class JsonError(ValueError):
    """A text is not valid JSON with comments."""

    def __init__(self, message: str, position: Position) -> None:
        super().__init__(message)
        self.position = position


class _Object(dict[str, Any]):
    def __init__(self) -> None:
        super().__init__()
        self.key_offsets: dict[str, int] = {}
        self.value_offsets: dict[str, int] = {}


class _Array(list[Any]):
    def __init__(self) -> None:
        super().__init__()
        self.value_offsets = array("Q")


class Document:
    """A parsed JSON text. Raises JsonError if it is not valid.

    `lines_before`: number of lines before the text in its file.
    """

    def __init__(self, text: str, lines_before: int = 0) -> None:
        self._text, self._before = text, lines_before
        try:
            self.value = _plain(text)
        except (ValueError, RecursionError):
            self.value, _ = self._with_offsets

    @cached_property
    def _with_offsets(self) -> tuple[Any, int]:
        """The value and its offset in the text, found by a slower parser. Objects and arrays contain the offsets of entries."""
        return _Reader(self._text, self._locate).document()

    def position(self, path: Sequence[str | int], key: bool = False) -> Position:
        """Return the position of the value at `path`, or of its key. A missing value has the position of its nearest parent."""
        value, offset = self._with_offsets
        for number, step in enumerate(path):
            if isinstance(value, _Object) and step in value and isinstance(step, str):
                last = key and number == len(path) - 1
                offset = (value.key_offsets if last else value.value_offsets)[step]
            elif isinstance(value, _Array) and isinstance(step, int) and 0 <= step < len(value):
                offset = value.value_offsets[step]
            else:
                break
            value = value[step]
        return self._locate(offset)

    @cached_property
    def _lines(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self._text))]

    def _locate(self, offset: int) -> Position:
        line = bisect.bisect_right(self._lines, offset)
        return Position(self._before + line, offset - self._lines[line - 1] + 1)


def _plain(text: str) -> Any:
    """Parse plain JSON. Raises ValueError for a text that `_Reader` refuses or reads differently."""
    if "\\u" in text or _LONG_NUMBER.search(text):
        raise ValueError
    value = _PLAIN.decode(text)
    if text.count("[") + text.count("{") > DEPTH_LIMIT:
        _check_depth(value)
    return value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dictionary. Raises ValueError if a key appears twice. Used as `object_pairs_hook`."""
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} appears twice in one object")
    return value


def _finite(text: str) -> float:
    """Return a number. Raises ValueError for NaN and Infinity, which Python's parser accepts."""
    value = float(text)
    if not isfinite(value):
        raise ValueError
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_LIMIT):
        items = (item for part in level for item in (part.values() if type(part) is dict else part))
        level = [item for item in items if type(item) in (dict, list)]
    if level:
        raise ValueError


_PLAIN = json.JSONDecoder(object_pairs_hook=unique_keys, parse_float=_finite, parse_constant=_finite)
_LONG_NUMBER = re.compile(f"(?<![0-9])[0-9]{{{DIGITS_LIMIT + 1}}}")  # the lookbehind keeps the search linear


class _Reader:
    def __init__(self, text: str, locate: Callable[[int], Position]) -> None:
        self.text, self.locate, self.at, self.depth = text, locate, 0, 0

    def error(self, message: str, at: int | None = None) -> JsonError:
        return JsonError(message, self.locate(self.at if at is None else at))

    def document(self) -> tuple[Any, int]:
        if not self.peek():
            raise self.error("the file is empty: it holds no JSON value", 0)
        start = self.at
        value = self.value()
        if self.peek():
            raise self.error(
                f"the JSON value ended before this {self.shown()}: a file holds one value, a .jsonl file one on each line"
            )
        return value, start

    def peek(self) -> str:
        """Skip blanks and comments. Return the next character, or an empty text at the end."""
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr] # matches the empty string too
        return self.text[self.at : self.at + 1]

    def value(self) -> Any:
        first = self.peek()
        if first == '"':
            return self.string()
        if first == "{":
            return self.nested(self.object)
        if first == "[":
            return self.nested(self.array)
        match = _NUMBER.match(self.text, self.at)
        return self.other(first) if match is None else self.number(match)

    def nested(self, read: Any) -> Any:
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            raise self.error(
                f"arrays and objects are nested more than {DEPTH_LIMIT} deep, deeper than in any model or descriptor"
            )
        self.at += 1
        value = read()
        self.at += 1
        self.depth -= 1
        return value

    def object(self) -> _Object:
        value = _Object()
        while self.peek() != "}":
            start = self.at
            if self.text[start : start + 1] != '"':
                raise self.unexpected("a key in double quotes or '}'")
            key = self.string()
            if key in value:
                raise self.error(f"the key {key!r} appears twice in one object", start)
            if self.peek() != ":":
                raise self.unexpected(f"':' after the key {key!r}")
            self.at += 1
            self.peek()
            value.key_offsets[key], value.value_offsets[key] = start, self.at
            value[key] = self.value()
            self.comma("}")
        return value

    def array(self) -> _Array:
        value = _Array()
        while self.peek() != "]":
            while match := _ELEMENT.match(self.text, self.at):
                value.value_offsets.append(match.start("number"))
                value.append(self.number(match))
            if self.peek() == "]":
                break
            value.value_offsets.append(self.at)
            value.append(self.value())
            self.comma("]")
        return value

    def comma(self, end: str) -> None:
        character = self.peek()
        if character == ",":
            self.at += 1
        elif character != end:
            raise self.unexpected(f"',' or {end!r}")

    def string(self) -> str:
        start = self.at
        match = _STRING.match(self.text, start)
        if match is None:
            raise self.bad_string()
        self.at = match.end()
        raw = match[1]
        if "\\" not in raw:
            return raw
        units = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)) if escape[1] else _ESCAPES[escape[2]], raw)
        try:
            return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise self.error("the string has half of a surrogate pair (\\ud800 … \\udfff come in twos)", start) from None

    def number(self, match: re.Match[str]) -> int | float:
        start, self.at = match.start("number"), match.end()
        text, fraction = match.groups()
        if not fraction:
            if len(text) > DIGITS_LIMIT:
                raise self.error(f"an integer of {len(text)} digits is too large: data types hold at most 309 digits", start)
            return int(text)
        value = float(text)
        if not isfinite(value):
            raise self.error(f'{text[:40]} is too large for a 64-bit float; infinity is written "inf"', start)
        return value

    def other(self, first: str) -> Any:
        word = _WORD.match(self.text, self.at)
        if word is not None and word[0] in _LITERALS:
            self.at = word.end()
            return _LITERALS[word[0]]
        match = _NUMBER_LIKE.match(self.text, self.at)
        spelled = match[0] if match is not None else ""
        if spelled.strip("+-").lower() in ("nan", "inf", "infinity"):
            raise self.error(f'{spelled} is not JSON; write "nan", "inf" or "-inf" in double quotes')
        if spelled and (first in "+-." or first.isdigit()):
            raise self.error(f"{spelled[:40]} is not a number in JSON")
        raise self.unexpected("a value")

    def bad_string(self) -> JsonError:
        at = _INSIDE.match(self.text, self.at + 1).end()  # type: ignore[union-attr] # matches the empty string too
        if at >= len(self.text):
            return self.error("the file ends inside the string that begins here")
        if self.text[at] == "\\":
            return self.error(f"{self.text[at : at + 6]!r} is not an escape that JSON knows (a backslash is written \\\\)", at)
        return self.error(f"the control character U+{ord(self.text[at]):04X} in a string; close the string or escape it", at)

    def unexpected(self, expected: str) -> JsonError:
        if self.at >= len(self.text):
            return self.error(f"the file ends where {expected} is expected: it was cut off")
        if self.text.startswith("/*", self.at):
            return self.error("the file ends inside the comment that begins here")
        return self.error(f"expected {expected}, got {self.shown()}")

    def shown(self) -> str:
        character = self.text[self.at]
        if not character.isprintable():
            return f"the character U+{ord(character):04X}"
        word = _WORD.match(self.text, self.at)
        return repr(word[0][:40]) if word is not None else repr(character)
