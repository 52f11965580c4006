"""`llmgw agent`: one on each node."""
