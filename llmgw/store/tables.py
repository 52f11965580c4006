"""The tables of the database, as queries name them; the migrations make them."""

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, LargeBinary, MetaData, Table, Text

metadata = MetaData()

models = Table(
    "models",
    metadata,
    Column("name", Text, primary_key=True),
    Column("model", Text, nullable=False),  # the whole model as JSON, profiles included
    Column("created_at", Text, nullable=False),
    Column("changed_at", Text, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("prefix", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("scope", Text, nullable=False),
    Column("models", Text),  # a JSON list of model names; null allows all
    Column("created_at", Text, nullable=False),
    Column("expires_at", Text),
    Column("revoked_at", Text),
    # An id is never given twice: what was logged of a removed key must not point at another.
    sqlite_autoincrement=True,
)

nodes = Table(
    "nodes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("enrolled_at", Text, nullable=False),
    Column("intent", Text),  # draining or cordoned, as an operator said; null for ready
)

node_events = Table(
    "node_events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
    Index("node_events_of_node", "node", "id"),
    Index("node_events_at", "at"),
)

settings = Table(
    "settings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

users = Table(
    "users",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text(collation="NOCASE"), nullable=False, unique=True),
    Column("password", Text, nullable=False),  # its argon2id hash, parameters and salt included
    Column("admin", Boolean, nullable=False),
    Column("created_at", Text, nullable=False),
    # An id is never given twice: a session must not fall to somebody else.
    sqlite_autoincrement=True,
)

sessions = Table(
    "sessions",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("user", Integer, ForeignKey("users.id"), nullable=False),
    Column("csrf", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("ends_at", Text, nullable=False),
    Index("sessions_of_user", "user"),
)

peaks = Table(
    "peaks",
    metadata,
    Column("fingerprint", Text, primary_key=True),
    Column("version", Text, primary_key=True),  # of the engine; empty where no agent says it
    Column("model", Text, nullable=False),
    Column("engine", Text, nullable=False),
    Column("peak_bytes", Integer, nullable=False),
    Column("at", Text, nullable=False),
)
