"""What a person decided and what must be accounted for, in SQLite."""
