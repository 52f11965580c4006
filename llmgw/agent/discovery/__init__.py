"""What a machine is: each probe beside the pure parser of what it reads."""
