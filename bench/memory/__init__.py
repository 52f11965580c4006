"""How much memory an engine takes beside how much was reckoned."""
