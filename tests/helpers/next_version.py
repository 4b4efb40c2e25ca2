"""Migrates stores as the next version of txnscope would: with a made-up revision after those of this version."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from service.store import migrate

REVISION: Final = "r9998"

_HEAD: Final = """\"\"\"Made up for tests.\"\"\"

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{head}"
readable_since = "{since}"


def upgrade():
"""

_ADDS: Final = """    for table in sa.inspect(op.get_bind()).get_table_names():
        if table not in ("alembic_version", "readable_since"):
            op.add_column(table, sa.Column("added", sa.String()))
            op.add_column(table, sa.Column("counted_as", sa.Integer(), nullable=False, server_default="0"))
    op.create_table("added_things", sa.Column("id", sa.Integer(), primary_key=True))
    op.create_index("ix_clusters_added", "clusters", ["added"])
"""

_CHANGES: Final = """    op.execute("ALTER TABLE clusters RENAME COLUMN name TO title")
"""


def add_made_up_revision(scripts: Path, *, only_adds: bool) -> None:
    """Adds a revision to the migrations in `scripts`. With `only_adds`, the revision adds a table, an index, and
    columns in every table except `alembic_version` and `readable_since`. Otherwise the revision renames a column that
    this version needs."""
    head = ScriptDirectory(str(scripts)).get_current_head()
    text = _HEAD.format(revision=REVISION, head=head, since=head if only_adds else REVISION)
    (scripts / "versions" / f"{REVISION}_made_up.py").write_text(text + (_ADDS if only_adds else _CHANGES))


@contextmanager
def as_next_version(directory: Path, *, only_adds: bool = True) -> Iterator[None]:
    """In the block, this process has the migrations of the next version (`add_made_up_revision`). The first call makes
    them in `directory`. A later call with the same directory uses them again, and ignores `only_adds`."""
    scripts, own = directory / "migrations", migrate._SCRIPTS
    if not scripts.exists():
        shutil.copytree(own, scripts)
        add_made_up_revision(scripts, only_adds=only_adds)
    _take(scripts)
    try:
        yield
    finally:
        _take(own)


def migrate_by_next_version(engine: Engine, directory: Path, *, only_adds: bool = True) -> None:
    """Migrates the store as the next version would. Afterwards, this process has its own migrations again."""
    with as_next_version(directory, only_adds=only_adds):
        migrate.upgrade(engine)


def _take(scripts: Path) -> None:
    migrate._SCRIPTS = scripts
    migrate.head.cache_clear()
    migrate.is_known.cache_clear()
