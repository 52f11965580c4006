"""How long the pages of a large fleet take the server."""
