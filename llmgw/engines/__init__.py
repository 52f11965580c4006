"""What is true of one engine only: how it is started, told ready, and what it answers."""
