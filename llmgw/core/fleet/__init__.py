"""Facts of machines, models and shards, and the observed fleet as one value."""
