"""The admin pages, one module each: read, present, render."""
