"""Ports for programs that are told theirs."""

import secrets
import socket
from contextlib import suppress

from redisq_ops.demo.server import HOST, PORTS


def free_port() -> int:
    """A port on loopback that no outgoing connection is given until the program has taken it."""
    while True:
        with socket.socket() as tried, suppress(OSError):
            tried.bind((HOST, port := secrets.choice(PORTS)))
            return port
