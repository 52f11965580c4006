"""Faults done to a running llmgw on purpose, and what each of them costs."""
