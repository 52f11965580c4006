"""Keep the most memory that engines were seen to hold."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table of peaks."""
    op.create_table(
        "peaks",
        sa.Column("fingerprint", sa.Text, primary_key=True),
        sa.Column("version", sa.Text, primary_key=True),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("engine", sa.Text, nullable=False),
        sa.Column("peak_bytes", sa.Integer, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
    )
