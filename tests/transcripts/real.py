"""A client of the transcripts to a real kube-apiserver."""

from __future__ import annotations

from tests.kube.real.apiserver import ADMIN, Apiserver
from tests.sandbox.served import Client


def client_of(server: Apiserver) -> Client:
    """As its administrator."""
    return Client(server.url, ADMIN, server.ca_pem)
