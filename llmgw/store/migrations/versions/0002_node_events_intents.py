"""Keep events of nodes, and what an operator wants of each node."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table of events and the column of intents."""
    op.create_table(
        "node_events",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.create_index("node_events_of_node", "node_events", ["node", "id"])
    op.create_index("node_events_at", "node_events", ["at"])
    op.add_column("nodes", sa.Column("intent", sa.Text))
