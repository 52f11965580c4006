"""What the logs of nodes cost, and whether following them loses anything."""
