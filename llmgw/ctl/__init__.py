"""`llmgw ctl`: the operator's command line, over HTTP."""
