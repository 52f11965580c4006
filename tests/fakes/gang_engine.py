"""A program that stands in for vLLM, SGLang and llama.cpp's servers: the same command lines, real meetings over TCP.

Run by a Python of its own, standard library only: `gang_engine.py ROLE ARGUMENT...` with the role vllm, sglang,
llama-server or ggml-rpc-server. Flags that the engine does not have end it, as they end the engine.

1. Rank 0 waits at the address and port that all were told until every other rank has come, and serves HTTP only then.
   Other ranks dial, again and again until they are let in.
2. A rank that has lost another does nothing by itself: rank 0 goes on saying that it is well, as real ones do for long.
3. SGLang's other ranks answer every /health with yes, do nothing on SIGTERM, and end when rank 0 says that it ends.
4. vLLM over Ray asks Ray's head how many nodes there are, and ends when there are fewer than it was told to use.
5. A chat is answered with the number of ranks that met.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIAL_EVERY_S = 0.1


def vllm(words):
    parser = argparse.ArgumentParser(prog="vllm", allow_abbrev=True)
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--served-model-name", nargs="+", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("-tp", "--tensor-parallel-size", type=int, default=1)
    parser.add_argument("-pp", "--pipeline-parallel-size", type=int, default=1)
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--max-num-seqs", type=int)
    parser.add_argument("--gpu-memory-utilization", type=float, default=0.92)
    parser.add_argument("--disable-access-log-for-endpoints")
    parser.add_argument("--distributed-executor-backend", choices=["mp", "ray", "uni"])
    parser.add_argument("-n", "--nnodes", type=int, default=1)
    parser.add_argument("-r", "--node-rank", type=int, default=0)
    parser.add_argument("--master-addr", default="127.0.0.1")
    parser.add_argument("--master-port", type=int, default=29501)
    parser.add_argument("--headless", action="store_true")
    given = parser.parse_args(words)
    if given.nnodes > 1 and given.distributed_executor_backend == "ray":
        raise ValueError("nnodes > 1 cannot go together with ray")
    if given.headless != (given.node_rank > 0):
        raise ValueError("only ranks above 0 are headless")
    if given.tensor_parallel_size * given.pipeline_parallel_size % given.nnodes:
        raise ValueError("World size is not divisible by nnodes")
    nodes = given.nnodes
    if given.distributed_executor_backend == "ray":
        nodes = ray_nodes(given.pipeline_parallel_size)
    place = (given.master_addr, given.master_port)
    return given, nodes, given.node_rank, place, given.served_model_name[0]


def sglang(words):
    parser = argparse.ArgumentParser(prog="sglang", allow_abbrev=True)
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--tp-size", type=int, default=1)
    parser.add_argument("--pp-size", type=int, default=1)
    parser.add_argument("--context-length", type=int)
    parser.add_argument("--max-running-requests", type=int)
    parser.add_argument("--mem-fraction-static", type=float)
    parser.add_argument("--enable-metrics", action="store_true")
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--dist-init-addr")
    given = parser.parse_args(words)
    assert given.tp_size * given.pp_size % given.nnodes == 0, "tp_size must be divisible by number of nodes"
    host, _, port = (given.dist_init_addr or ":0").rpartition(":")
    return given, given.nnodes, given.node_rank, (host.strip("[]"), int(port)), given.served_model_name


def ray_nodes(wanted):
    """Ask Ray's head how many nodes have joined it."""
    host, _, port = os.environ["RAY_ADDRESS"].rpartition(":")
    with socket.create_connection((host, int(port))) as asked:
        asked.sendall(b"count\n")
        there = int(asked.makefile().readline())
    if there < wanted:
        raise ValueError(f"Cannot provide a placement group requiring {wanted} nodes, there are {there}")
    return there


class Meeting:
    """Rank 0's side: who has come; `close` tells them that it is over."""

    def __init__(self, place, nodes):
        self.others = {}
        self.server = None
        if nodes > 1:
            self.server = socket.create_server(place)
            while len(self.others) < nodes - 1:
                peer, _ = self.server.accept()
                rank = int(peer.makefile().readline())
                self.others[rank] = peer
                print(f"rank {rank} has come", flush=True)
            for peer in self.others.values():
                peer.sendall(b"go\n")

    def close(self):
        for peer in self.others.values():
            with contextlib.suppress(OSError):
                peer.sendall(b"end\n")


def follow(place, rank):
    """Another rank's side: dial until rank 0 lets it in, and end when that says so."""
    while True:
        try:
            peer = socket.create_connection(place, timeout=5)
            break
        except OSError:
            time.sleep(DIAL_EVERY_S)
    peer.settimeout(None)
    peer.sendall(f"{rank}\n".encode())
    for line in peer.makefile():
        print(f"rank 0 says {line.strip()}", flush=True)
        if line == "end\n":
            return 0
    # Rank 0 is gone without a word.
    threading.Event().wait()


def handler(name, nodes):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.answer(b"{}" if self.path == "/health" else b"")

        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            words = {"role": "assistant", "content": f"{nodes} ranks"}
            choice = {"index": 0, "message": words, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
            answer = {"id": "x", "object": "chat.completion", "created": 1, "model": name}
            self.answer(json.dumps(answer | {"choices": [choice], "usage": usage}).encode())

        def answer(self, body):
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler


def serve(host, port, name, nodes):
    server = ThreadingHTTPServer((host, port), handler(name, nodes))
    threading.Thread(target=server.serve_forever, daemon=True).start()


def ranked(role, words):
    """Be one rank of vLLM or SGLang."""
    given, nodes, rank, place, name = (vllm if role == "vllm" else sglang)(words)
    if rank:
        if role == "sglang":
            serve(given.host, given.port, name, nodes)
            signal.signal(
                signal.SIGTERM, lambda *_: print("SIGTERM: waiting for the rank-0 broadcast", flush=True)
            )
        return follow(place, rank)
    told = threading.Event()
    alone = role == "vllm" and given.distributed_executor_backend == "ray"
    meeting = Meeting(place, 1 if alone else nodes)
    # Until here a SIGTERM ends it as it is.
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    serve(given.host, given.port, name, nodes)
    print("Application startup complete.", flush=True)
    told.wait()
    meeting.close()
    return 0


def llama_server(words):
    """Be llama-server, which uses the devices of rpc servers."""
    parser = argparse.ArgumentParser(prog="llama-server", allow_abbrev=False)
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--model")
    parser.add_argument("--alias")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--rpc")
    parser.add_argument("--ctx-size")
    parser.add_argument("--parallel")
    parser.add_argument("--device")
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--no-ui", action="store_true")
    parser.add_argument("--sse-ping-interval")
    parser.add_argument("--cache-ram")
    given = parser.parse_args(words)
    if given.version:
        print("version: 11434 (abcdef0)", file=sys.stderr)
        return 0
    others = given.rpc.split(",") if given.rpc else []
    for other in others:
        host, _, port = other.rpartition(":")
        for _ in range(100):
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=5)
                break
            except OSError:
                time.sleep(DIAL_EVERY_S)
        else:
            print(f"failed to connect to {other}", file=sys.stderr)
            return 1
    serve(given.host, given.port, given.alias, len(others) + 1)
    threading.Event().wait()


def rpc_server(words):
    """Be ggml-rpc-server: whoever dials may use it."""
    parser = argparse.ArgumentParser(prog="ggml-rpc-server", allow_abbrev=False)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args(words)
    server, peers = socket.create_server((given.host, given.port)), []
    while True:
        peers.append(server.accept())


def main():
    role, words = sys.argv[1], sys.argv[2:]
    print(f"{role} {' '.join(words)}", flush=True)
    if role == "llama-server":
        return llama_server(words)
    return rpc_server(words) if role == "ggml-rpc-server" else ranked(role, words)


if __name__ == "__main__":
    sys.exit(main())
