"""The base of structures of DirectML and of everything that is reported."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Immutable data. `model_dump(mode="json")` gives JSON, and the docstring under a field describes it in the JSON Schema."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
