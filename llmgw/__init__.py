"""One OpenAI-compatible service from Linux machines: server, agent and ctl in one program."""

__version__ = "0.1.0"
