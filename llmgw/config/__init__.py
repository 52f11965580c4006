"""Configuration files: shape, default and meaning of every key."""
