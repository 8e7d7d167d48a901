"""A small local server for one page and its data, for the browser of the user who started it.

It listens on the loopback interface only. A request must have the token in its address, name this
server as its host, and not come from another site's page; so pages elsewhere cannot read the data,
even if they guess the port or use a name that resolves to the loopback. The server writes nothing.
"""

from __future__ import annotations

import hmac
import json
import logging
import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from ...sim.errors import ForetraceError

log = logging.getLogger(__name__)
LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost")  # by which a browser here may ask
PATIENCE = 60.0  # s that a connection may be silent
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address has the token
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Reply(NamedTuple):
    """Reply to a request: its body, content type and Content-Security-Policy."""

    body: bytes
    type: str
    policy: str = "default-src 'none'"


Pages = Mapping[str, Callable[[Mapping[str, str]], Reply]]
"""Request handlers by the last part of the path; each gets the query and returns a reply."""


def json_reply(value: Any) -> Reply:
    """Reply with JSON data."""
    return Reply(json.dumps(value).encode(), "application/json")


class ViewServer(ThreadingHTTPServer):
    """HTTP server on the loopback interface with its own access token.

    Parameters
    ----------
    pages : handlers by path; a ``ValueError`` or ``ForetraceError`` becomes the text of a 400 reply
    port : port to listen on; 0 for any free port

    Examples
    --------
    >>> with ViewServer({"": lambda query: json_reply(sorted(query))}) as server:
    ...     server.address.startswith("http://127.0.0.1:")
    True
    """

    daemon_threads = True

    def __init__(self, pages: Pages, port: int = 0):
        self.pages = pages
        self.token = secrets.token_urlsafe(24)
        super().__init__((LOOPBACK, port), _Handler)

    @property
    def address(self) -> str:
        """Address to open in a browser, including the token."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host names that a request may use."""
        return tuple(f"{name}:{self.server_port}" for name in NAMES)


class _RefusedError(Exception):
    """A request that is refused.

    Parameters
    ----------
    status : HTTPStatus
        Status of the reply.
    why : text of the reply
    """

    def __init__(self, status: HTTPStatus, why: str):
        super().__init__(why)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    """Handler of one connection."""

    server: ViewServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "foretrace", ""
    timeout = PATIENCE

    def do_GET(self) -> None:
        try:
            found = self._page()
        except _RefusedError as refused:
            self._send(refused.status, Reply(str(refused).encode(), "text/plain; charset=utf-8"))
        except (ValueError, ForetraceError) as error:
            self._send(
                HTTPStatus.BAD_REQUEST, Reply(str(error).encode(), "text/plain; charset=utf-8")
            )
        except Exception as error:  # the browser says so, and the next request is answered
            log.exception("view: %s", error)
            self._send(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                Reply(repr(error).encode(), "text/plain; charset=utf-8"),
            )
        else:
            self._send(HTTPStatus.OK, found)

    def _page(self) -> Reply:
        """Reply to a request, after checking that it is allowed."""
        self._check_origin()
        parts = urlsplit(self.path)
        _, token, *rest = parts.path.split("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            raise _RefusedError(
                HTTPStatus.FORBIDDEN, "open the address that foretrace view printed"
            )
        page = self.server.pages.get("/".join(rest)) if rest else None
        if page is None:
            raise _RefusedError(HTTPStatus.NOT_FOUND, "there is no such page")
        return page({name: values[-1] for name, values in parse_qs(parts.query).items()})

    def _check_origin(self) -> None:
        """Refuse a request for another host name, or from another page."""
        hosts = self.server.hosts
        if self.headers.get_all("Host", []) not in [[host] for host in hosts]:
            raise _RefusedError(
                HTTPStatus.MISDIRECTED_REQUEST,
                "the host is another one; open the address that foretrace view printed",
            )
        origin, site = self.headers.get("Origin"), self.headers.get("Sec-Fetch-Site", "none")
        opened = self.headers.get("Sec-Fetch-Dest") == "document"  # a link, wherever it was clicked
        ours = origin in (None, *(f"http://{host}" for host in hosts))
        if not ours or not (opened or site in ("none", "same-origin")):
            raise _RefusedError(
                HTTPStatus.FORBIDDEN,
                "the request comes from another page; open the address that foretrace view printed",
            )

    def _not_allowed(self) -> None:
        self.close_connection = True  # a body that was sent is not read
        self._send(
            HTTPStatus.METHOD_NOT_ALLOWED, Reply(b"it only reads", "text/plain"), Allow="GET"
        )

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_HEAD = _not_allowed  # noqa: N815

    def _send(self, status: HTTPStatus, answer: Reply, **more: str) -> None:
        try:
            self.send_response(status)
            policy = f"{answer.policy}; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
            own = {"Content-Type": answer.type, "Content-Length": str(len(answer.body)),
                   "Content-Security-Policy": policy}  # fmt: skip
            for name, value in {**HEADERS, **own, **more}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)
        except (BrokenPipeError, ConnectionResetError):  # the page asked for something newer
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Suppress request logging: it would hide other messages and contains the token."""
