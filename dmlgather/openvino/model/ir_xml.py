"""Read the XML of an OpenVINO IR, which may be hostile: no document types, so no entities; no network; bounded depth."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dmlgather.files import EncodingError, FileError, read_text
from dmlgather.wording import printable

ROOTS = ("net", "layer")
"""The outermost element of an IR: a whole model, or one layer, as the operations' pages show it."""

DEEPEST = 256
"""The most elements inside each other; each body in a body takes three."""

_ASIDE = r"<\?.*?\?>|<!--.*?-->"
_PROLOG = re.compile(rf"(?:\s++|{_ASIDE})*+", re.DOTALL)
_QUOTED = r"\"[^\"]*+\"|'[^']*+'"
_DOCTYPE = re.compile(
    rf"<!DOCTYPE(?:[^\[\]<>\"']++|{_QUOTED})*+(?:\[(?:{_ASIDE}|[^\]<\"']|<(?!\?|!--)|{_QUOTED})*+\]\s*+)?+>", re.DOTALL
)
_FIRST = re.compile(r"<([^\s<>/!?]+)")
_ELLIPSIS = re.compile(r"<layer \.\.\. ")


class IRError(FileError):
    """An IR is wrong. line and column: the place in its text, counted from 1; None where it is not known."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line, self.column = line, column


class ForeignError(IRError):
    """The text is other XML, or no XML."""


@dataclass(slots=True)
class Element:
    """One element. line: of the end of its start tag, counted from 1; None where it is not known. text: before its children."""

    tag: str
    attributes: Mapping[str, str]
    line: int | None = None
    text: str = ""
    children: list[Element] = field(default_factory=list)

    @classmethod
    def of(cls, element: Any) -> Element:
        """From an element of lxml or of xml.etree, with its children but without comments."""
        children = [cls.of(child) for child in element if isinstance(child.tag, str)]
        return cls(element.tag, dict(element.attrib), getattr(element, "sourceline", None), element.text or "", children)

    def get(self, name: str) -> str | None:
        """The value of an attribute; None without it."""
        return self.attributes.get(name)

    def all(self, tag: str) -> list[Element]:
        """The children with a tag."""
        return [child for child in self.children if child.tag == tag]


def read_xml(path: Path) -> Element:
    """The outermost element of the IR at `path`. ForeignError for other XML, FileError for anything else."""
    try:
        text = read_text(path, "an IR keeps its constants in a .bin file")
    except EncodingError as error:
        if _root(error.guess)[1] in ROOTS:
            raise
        raise ForeignError(f"is no OpenVINO IR, and {error}") from None
    return parse(text)


def parse(text: str) -> Element:
    """The outermost element of an IR's text, a net or a layer, without comments.

    IRError for anything else, ModuleNotFoundError where lxml is missing.
    """
    text = text.removeprefix("\ufeff")
    doctype, first = _root(text)
    # Other XML is recognised without a parser, so that folders can be searched without lxml.
    if first not in ROOTS:
        raise ForeignError(f"is no OpenVINO IR: expected <{ROOTS[0]}> or <{ROOTS[1]}>, got {_shown(text, first)}")
    if doctype is not None:  # the parser refuses one elsewhere
        line = text.count("\n", 0, doctype) + 1
        raise IRError("has a document type declaration (<!DOCTYPE), which no IR has: remove it", line)
    root = _tree(_ELLIPSIS.sub("<layer     ", text))
    if not {"net": root.all("layers"), "layer": root.get("type") is not None}.get(root.tag):
        tag = printable(root.tag)
        raise ForeignError(f"is no OpenVINO IR: expected <net> with <layers>, or <layer> with a type, got <{tag}>", root.line)
    return root


def _root(text: str) -> tuple[int | None, str | None]:
    """The offset of a text's document type, and the tag of its outermost element; None for what it does not have.

    A document type is skipped without reading its content; one without an end has no element after it.
    """
    at = _after_prolog(text, 0)
    doctype = at if text.startswith("<!DOCTYPE", at) else None
    if doctype is not None:
        declaration = _DOCTYPE.match(text, at)
        at = _after_prolog(text, declaration.end()) if declaration else len(text)
    first = _FIRST.match(text, at)
    return doctype, first[1] if first else None


def _after_prolog(text: str, at: int) -> int:
    prolog = _PROLOG.match(text, at)
    return prolog.end() if prolog else at


def _shown(text: str, first: str | None) -> str:
    if not text.strip():
        return "an empty file"
    return "no XML" if first is None else f"<{printable(first[:40])}>"


class _Builder:
    """The target of the parser: builds the elements. line: the one that the parser reads."""

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
        """The parser calls this at the end; there is nothing to do."""


def _tree(text: str) -> Element:
    from lxml import etree  # type: ignore[import-untyped] # lxml ships no types

    builder = _Builder()
    parser = etree.XMLParser(
        target=builder,
        encoding="utf-8",  # whatever the XML declaration says
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
    )
    try:
        for builder.line, line in enumerate(text.encode("utf-8", "surrogatepass").splitlines(keepends=True), 1):
            parser.feed(line)
        parser.close()
    except etree.XMLSyntaxError as error:
        line_number, column = error.position
        reason = re.sub(r",? *line \d+, column \d+$", "", " ".join(str(error.msg).split()))
        raise IRError(f"is not well-formed XML: {printable(reason)}", line_number, column) from None
    assert builder.root is not None, "a well-formed text has a root"
    return builder.root
