"""Bring a database's schema to the newest version with Alembic.

Imported only when a schema is behind: Alembic costs nearly half a second, and most starts do not need it.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def upgrade(connection: Connection, migrations: Path) -> None:
    """Run every migration that is missing within the transaction that `connection` is in.

    Args:
        migrations: the folder of env.py and versions/.
    """
    config = Config()
    # Alembic's options are interpolated as ConfigParser does it, so a percent sign in a path is doubled.
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
