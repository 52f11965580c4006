"""Choose a node for a profile, or refuse, and explain both."""
