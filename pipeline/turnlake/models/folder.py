"""Where the SQL files are."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from turnlake import __version__
from turnlake.errors import ModelError
from turnlake.models.model import LAYERS

PACKAGE = Path(__file__).resolve().parents[1]


def sql_folder(package: Path = PACKAGE) -> Path:
    """The folder `sql` that belongs to the package.

    That of the checkout comes first: an editable install leaves a copy in the package's place that goes stale.
    Raises ModelError where there is neither.
    """
    for folder in (package.parents[1] / "sql", package / "sql"):
        if (folder / "marts").is_dir():
            return folder
    raise ModelError(f"there are no SQL models beside {package}: install turnlake again")


def models_digest() -> str:
    """What the models of this turnlake are, in hex: it changes with any of their files, their macros, and each version.

    Queries over the models (reports, alerts) are not in the database.
    """
    digest = sha256(__version__.encode())
    root = sql_folder()
    for path in sorted(path for layer in ("macros", *LAYERS) for path in (root / layer).rglob("*.sql")):
        digest.update(f"\0{path.relative_to(root).as_posix()}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
