"""The data path: from a client's request to an engine and back."""
