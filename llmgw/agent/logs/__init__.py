"""The logs of a node: the agent's own lines, engines' output, what jobs said; and who reads and follows them."""
