"""A program that stands in for Ray: `start --head` counts the nodes that join it, `start --address` joins and stays.

Run by a Python of its own, standard library only. A node that joins is counted for as long as its connection lasts;
one that dials before there is a head ends with an error, as Ray's own does.
"""

import argparse
import socket
import sys
import threading

joined = set()


def count(peer):
    """Count one that joins, or tell one that asks how many have."""
    mine = set()
    for line in peer.makefile():
        if line == "count\n":
            peer.sendall(f"{len(joined) + 1}\n".encode())
        else:
            mine.add(line)
            joined.add(line)
    joined.difference_update(mine)


def head(given):
    server = socket.create_server((given.node_ip_address, given.port))
    print("Ray runtime started.", flush=True)
    while True:
        peer, _ = server.accept()
        threading.Thread(target=count, args=(peer,), daemon=True).start()


def join(given):
    host, _, port = given.address.rpartition(":")
    try:
        peer = socket.create_connection((host, int(port)), timeout=5)
    except OSError as error:
        print(f"Can't find a `ray start` session at {given.address}: {error}", file=sys.stderr)
        return 1
    peer.settimeout(None)
    peer.sendall(f"{given.node_ip_address}\n".encode())
    peer.recv(1)
    return 1


def main():
    parser = argparse.ArgumentParser(prog="ray", allow_abbrev=False)
    parser.add_argument("command", choices=["start"])
    parser.add_argument("--head", action="store_true")
    parser.add_argument("--address")
    parser.add_argument("--port", type=int)
    parser.add_argument("--node-ip-address", required=True)
    parser.add_argument("--num-gpus", type=int, required=True)
    parser.add_argument("--disable-usage-stats", action="store_true")
    parser.add_argument("--include-dashboard")
    parser.add_argument("--block", action="store_true", required=True)
    given = parser.parse_args()
    return head(given) if given.head else join(given)


if __name__ == "__main__":
    sys.exit(main())
