"""What the admin surface shows: plain values, made from the core's, one module a noun. Unknown is None."""
