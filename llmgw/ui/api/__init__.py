"""The admin API as JSON: one handler module a noun, one shape of errors."""
