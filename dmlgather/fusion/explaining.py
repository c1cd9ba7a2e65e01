"""What a fused graph runs, launch by launch, in words and as pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from dmlgather.picture.explanation import Explanation, legend, printed


@dataclass(frozen=True, slots=True)
class FusedExplanation:
    """The result of `Fused.explain`: `str()` gives text, `to_json()` plain data, `picture()` SVG, `legend()` words.

    table: `str()` of the fused graph. launches: in order. A notebook shows the pictures and the text.
    """

    table: str
    data: Mapping[str, Any]
    launches: tuple[Explanation, ...]

    def to_json(self) -> dict[str, Any]:
        """`Fused.to_json()`, with the explanation of each launch."""
        found = zip(self.data["launches"], self.launches, strict=True)
        return {**self.data, "launches": [{**launch, "explanation": each.to_json()} for launch, each in found]}

    def picture(self) -> str:
        """An SVG document with a picture of each launch: what each output cell reads. ValueError where there is no launch."""
        from dmlgather.picture import draw

        return draw(*(each.subject() for each in self.launches))

    def legend(self) -> str:
        """The words of the text, with the parts of each kernel's name, and what they mean."""
        return printed(legend(str(self)))

    def _repr_html_(self) -> str:
        picture = self.picture() if self.launches else ""
        return f"<div>{picture}<pre>{escape(str(self))}</pre></div>"

    def __str__(self) -> str:
        return "\n\n".join((self.table, *map(str, self.launches)))
