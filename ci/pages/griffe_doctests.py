"""Extension of griffe, which reads the docstrings of docs/api.md, for examples as blocks of code."""

from typing import Any

from griffe import Extension, Object

from ci.pages.doctests import fenced


class Doctests(Extension):
    """The extension of griffe."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Convert the examples in the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
