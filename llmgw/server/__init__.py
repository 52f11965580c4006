"""`llmgw server`: builds everything from configuration and runs it."""
