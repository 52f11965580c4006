"""Clock, logs, packaged files and the spawning of other programs."""
