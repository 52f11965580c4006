"""Brings weights from where they are into this node's cache.

fetcher    one flight a source, however many shards wait for it
  flight     one source: look up, take room, download, put in place
    origin     what a source consists of, as it says itself
    download   one file: resumed, counted, verified
      web        requests, redirects, tokens
    staging    what lies on the disk meanwhile, and the lock on it
    hands      the one thread that touches the disk for it
    meter      how far it is and how fast
    silence    how long nothing has come
"""
