"""How long planning takes over a large fleet that is only simulated."""
