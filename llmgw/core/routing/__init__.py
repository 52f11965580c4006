"""What the router decides: what a request asks for and who can answer it."""
