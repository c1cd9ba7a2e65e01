"""Translation of problems and of whole programs between libraries."""

from dmlgather.translation.translating import Translation, translate

__all__ = ["Translation", "translate"]
