"""Alembic runs this file for every migration; the connection, with its open transaction, comes from upgrade.py."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
