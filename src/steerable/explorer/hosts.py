"""The names under which the explorer answers.

A page elsewhere can have its own name point to this machine, and would then be allowed to read what the explorer
answers (DNS rebinding). The browser still sends the name in the header ``Host``, and a request for a name that is not
the explorer's is refused.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

__all__ = ["Hosts", "listens_everywhere"]

_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{1,5})?", re.IGNORECASE)
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def listens_everywhere(host: str) -> bool:
    """Whether a server with this address is open to other machines under any of this machine's addresses."""
    return host in ("", "0.0.0.0", "::")


class Hosts:
    """The names and addresses that a request may be sent to, with any port.

    A server that listens everywhere has addresses that it does not know, behind a router for example. It answers to all
    addresses: only a name can be made to point here by somebody else.

    Args:
        host: the address that the server listens on, or its name.
        names: other names that it is reached by.
    """

    def __init__(self, host: str, names: Iterable[str] = ()) -> None:
        self.any_address = listens_everywhere(host)
        own = (socket.gethostname(), socket.getfqdn()) if self.any_address else (host,)
        self.names = frozenset(_plain(name) for name in (*_THIS_MACHINE, *own, *names))

    def serve(self, header: str) -> bool:
        """Whether a request with this ``Host`` is answered.

        >>> Hosts("127.0.0.1").serve("localhost:7860"), Hosts("127.0.0.1").serve("evil.example")
        (True, False)
        """
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        name = _plain(found["address"] or found["name"])
        return name in self.names or (self.any_address and _is_address(name))

    def __str__(self) -> str:
        return ", ".join([*sorted(self.names), *(["any IP address"] if self.any_address else [])])


def _plain(name: str) -> str:
    """A name in lower case, an address in its shortest form."""
    return str(ipaddress.ip_address(name)) if _is_address(name) else name.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
