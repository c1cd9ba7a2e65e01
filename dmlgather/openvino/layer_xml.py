"""Parser for the XML of layers. Hostile input is safe: no document types or entities, no network, limited nesting."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dmlgather.wording import printable

DEEPEST = 256
"""Limit for nested elements."""

_PROLOG = re.compile(r"(?:\s++|<\?.*?\?>|<!--.*?-->)*+", re.DOTALL)
_ELLIPSIS = re.compile(r"<layer \.\.\. ")


class IRError(Exception):
    """The text of a layer is invalid. `line`: the line number from 1; None if unknown."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(slots=True)
class Element:
    """An XML element.

    `line`: the line number, from 1, where the start tag ends; None if unknown. `text`: the text before the first child.
    """

    tag: str
    attributes: Mapping[str, str]
    line: int | None = None
    text: str = ""
    children: list[Element] = field(default_factory=list)

    @classmethod
    def of(cls, element: Any) -> Element:
        """Copy an element of lxml or xml.etree. Comments are left out."""
        children = [cls.of(child) for child in element if isinstance(child.tag, str)]
        return cls(element.tag, dict(element.attrib), getattr(element, "sourceline", None), element.text or "", children)

    def get(self, name: str) -> str | None:
        """Return the value of an attribute, or None if the element lacks it."""
        return self.attributes.get(name)

    def all(self, tag: str) -> list[Element]:
        """Return the children that have this tag."""
        return [child for child in self.children if child.tag == tag]


class _Builder:
    """Target of lxml's parser. It builds Elements.

    `line`: the number of the line that is being parsed. The caller sets it.
    """

    def __init__(self) -> None:
        self.line = 0
        self.open: list[Element] = []
        self.root: Element | None = None

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        element = Element(tag, dict(attributes), self.line)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)
        if len(self.open) > DEEPEST:
            raise IRError(f"is nested deeper than {DEEPEST} elements", self.line)

    def end(self, _tag: str) -> None:
        self.open.pop()

    def data(self, text: str) -> None:
        if self.open and not self.open[-1].children:
            self.open[-1].text += text

    def close(self) -> None:
        """Do nothing; lxml requires the method."""


def parse(text: str) -> Element:
    """Parse a text as XML and return the root element, without comments.

    The dots in "<layer ...", which OpenVINO's documentation writes for omitted attributes, are ignored. Raises IRError if the
    text is invalid, and ModuleNotFoundError if lxml is missing.
    """
    text = text.removeprefix("\ufeff")
    prolog = _PROLOG.match(text)
    start = prolog.end() if prolog else 0
    if text.startswith("<!DOCTYPE", start):  # the parser refuses it at other places
        line = text.count("\n", 0, start) + 1
        raise IRError("has a document type declaration (<!DOCTYPE), which no IR has: remove it", line)
    from lxml import etree  # type: ignore[import-untyped] # lxml ships no types

    builder = _Builder()
    lines = _ELLIPSIS.sub("<layer     ", text).encode("utf-8", "surrogatepass").splitlines(keepends=True)
    parser = etree.XMLParser(
        target=builder,
        encoding="utf-8",  # overrides the XML declaration
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
    )
    try:
        for builder.line, encoded in enumerate(lines, 1):
            parser.feed(encoded)
        parser.close()
    except etree.XMLSyntaxError as error:
        reason = re.sub(r",? *line \d+, column \d+$", "", " ".join(str(error.msg).split()))
        raise IRError(f"is not well-formed XML: {printable(reason)}", error.position[0]) from None
    assert builder.root is not None, "a well-formed text has a root"
    return builder.root
