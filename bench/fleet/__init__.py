"""A fleet of simulated agents on real connections, and what the server that they talk to makes of it."""
