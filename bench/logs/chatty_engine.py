"""An engine that talks all the time: llama-server's command line and health, and lines that count themselves.

Every line carries the next number, so that whoever reads them can tell a lost, a doubled and a torn one. Most are 100
bytes; now and then comes one of each kind that is hard on whoever shows it. Standard library only; its own switches:

    --rate N            lines in a second (default 1000)
    --odd-every S       seconds between two rounds of odd lines (default 60)
    --big MIB           size of the longest of them (default 4)
"""

import argparse
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TICK_S = 0.02


def options():
    """Read the command line; what it does not know is llama-server's and ignored."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--odd-every", type=float, default=60.0)
    parser.add_argument("--big", type=float, default=4.0)
    return parser.parse_known_args()[0]


class Health(BaseHTTPRequestHandler):
    """Says that all is well."""

    def do_GET(self):
        """Answer whatever is asked."""
        body = b'{"status":"ok"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Keep the lines to those that count."""


def plain(number):
    """Make an ordinary line of 100 bytes."""
    return b"n=%09d " % number + b"." * 87 + b"\n"


def odd(big_bytes):
    """Give what makes lines of every odd kind out of a number."""
    return (
        lambda n: b"n=%09d " % n + b"x" * big_bytes + b"\n",
        lambda n: b"n=%09d nul \0\0\0 behind\n" % n,
        lambda n: b"n=%09d bytes \xff\xfe\xc3( behind\n" % n,
        lambda n: b"\x1b[1;31mn=%09d\x1b[0m \x1b]0;title\x07colours\n" % n,
        lambda n: b"n=%09d <script>document.title='taken'</script><img src=x onerror=alert(1)>\n" % n,
        lambda n: b"".join(b"n=%09d %3d%%\r" % (n, part) for part in range(0, 101, 10)) + b"\n",
        lambda n: b"n=%09d Authorization: Bearer abcdefgh12345678\n" % n,
    )


def talk(given):
    """Write lines for ever, as many in a second as are wanted."""
    kinds = odd(int(given.big * 1024 * 1024))
    began, number, odd_at = time.monotonic(), 0, given.odd_every
    while True:
        time.sleep(TICK_S)
        passed = time.monotonic() - began
        wanted = int(passed * given.rate)
        lines = []
        while number < wanted:
            lines.append(plain(number))
            number += 1
        if passed >= odd_at:
            odd_at += given.odd_every
            for kind in kinds:
                lines.append(kind(number))
                number += 1
        write(b"".join(lines))


def write(data):
    """Write all of it, in as many pieces as the kernel likes."""
    while data:
        data = data[os.write(1, data) :]


def main():
    """Serve and talk."""
    given = options()
    if given.version:
        print("version: 4242 (abcdef0)", file=sys.stderr)
        return 0
    server = ThreadingHTTPServer((given.host, given.port), Health)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    talk(given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
