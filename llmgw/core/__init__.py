"""Domain types and decisions: pure values in, pure values out."""
