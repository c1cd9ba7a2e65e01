"""Extension of griffe, which reads the docstrings of docs/api.md. Examples become blocks of code."""

from typing import Any

from griffe import Extension, Object

from ci.pages.doctests import fenced


class Doctests(Extension):
    """The extension."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Convert the examples in a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
