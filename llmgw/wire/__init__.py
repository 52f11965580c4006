"""Frames and the link between server and agents."""
