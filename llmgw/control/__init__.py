"""The control plane: agents, the observed fleet, and what is done about it."""
