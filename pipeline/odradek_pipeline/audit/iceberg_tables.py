"""The tables of an audit as Iceberg's: each audit is the newest snapshot of them, and those before stay readable.

No Spark is needed, and no JVM: the data files are copies of what the audit has written as Parquet. The catalog is a
file beside them, and each table has the hint by which readers of Hadoop tables find it without a catalog.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.cli.usage import UsageError

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

__all__ = ["FOLDER", "publish"]

FOLDER = "iceberg"
"""Below the folder of the audit."""
NAMESPACE = "audit"
_VERSION = re.compile(r"(\d+)-[^/]*\.metadata\.json")


def publish(out: Path, names: Iterable[str]) -> None:
    """Make what the Parquet tables of these names below `out` hold the newest snapshot of the Iceberg tables there.

    Raises UsageError where tables are there that cannot be gone on with.
    """
    from pyiceberg.catalog.sql import SqlCatalog

    folder = (out / FOLDER).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with _sentences(folder):
        catalog = SqlCatalog(NAMESPACE, uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=folder.as_uri())
        with contextlib.closing(catalog):
            catalog.create_namespace_if_not_exists(NAMESPACE)
            for name in sorted(names):
                _publish(catalog, folder / NAMESPACE / name, out / f"{name}.parquet", name)


def _publish(catalog: SqlCatalog, folder: Path, written: Path, name: str) -> None:
    import pyarrow.dataset as ds
    from pyarrow.parquet import read_metadata
    from pyiceberg.expressions import AlwaysTrue

    dataset = ds.dataset(written, format="parquet")
    table = catalog.create_table_if_not_exists((NAMESPACE, name), schema=dataset.schema)
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    files = [_copied(Path(file), data).as_uri() for file in dataset.files if read_metadata(file).num_rows]
    with table.transaction() as transaction:
        with transaction.update_schema() as update:
            update.union_by_name(dataset.schema)
        if table.current_snapshot() is not None:
            transaction.delete(AlwaysTrue())
        if files:
            transaction.add_files(files, check_duplicate_files=False)
    _hint(catalog.load_table((NAMESPACE, name)).metadata_location, folder / "metadata")


def _copied(file: Path, folder: Path) -> Path:
    """A copy under a name of its own: the next audit writes over the file."""
    copy = folder / f"{uuid.uuid4()}.parquet"
    shutil.copyfile(file, copy)
    return copy


def _hint(location: str, folder: Path) -> None:
    """Say which version is the newest one, in the way of tables without a catalog."""
    newest = location.rpartition("/")[2]
    named = _VERSION.fullmatch(newest)
    assert named is not None, location
    version = int(named[1])
    shutil.copyfile(folder / newest, folder / f"v{version}.metadata.json")
    (folder / "version-hint.text").write_text(str(version))


@contextlib.contextmanager
def _sentences(folder: Path) -> Iterator[None]:
    """What was moved here, or is no catalog, is said in a sentence."""
    from pyiceberg.exceptions import ValidationError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (OSError, SQLAlchemyError, ValidationError) as error:
        said = str(getattr(error, "orig", None) or error).splitlines()[0].rstrip(".")
        raise UsageError(
            f"The Iceberg tables in {folder} cannot be gone on with: {said}. They stay where they were made; "
            "name another --out, or remove the folder."
        ) from error
