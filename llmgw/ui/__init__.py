"""The admin surface: the JSON API and the pages over the same operations."""
