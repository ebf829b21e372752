"""How does only a browser on this machine reach pgdrag? Connections, the token, and requests.

The server listens on 127.0.0.1 alone. Each address has an unguessable part, and each request needs a cookie
that a browser gets for the token, which is in the fragment of the printed address: a browser sends neither to anybody
else, also not to another port of this machine. What other sites' pages make a browser ask for is refused.
"""

from __future__ import annotations

import errno
import hmac
import re
import secrets
import socketserver
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from pgdrag.errors import JournalError, PgdragError, UsageError

ADDRESS = "127.0.0.1"
# Names of this machine, also behind `ssh -L`, which gives it another port. What leads a name of its own here is refused.
_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?")
_MOST_BODY_BYTES = 65_536
_MOST_CONNECTIONS = 64
_MOST_VALUES = 100
_SILENT_S = 30.0  # a connection that neither says nor takes anything
_COOKIE = "pgdrag"


@dataclass(frozen=True)
class Request:
    """What is asked for.

    Attributes:
        path: below the server's own part of the address, in its parts.
        values: of the query, or of a form.
    """

    method: str
    path: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]

    def value(self, name: str) -> str:
        """Return the first value of a name; "" without one."""
        return next(iter(self.values.get(name, ())), "")


@dataclass(frozen=True)
class Answer:
    """A page, or where to go.

    Attributes:
        policy: its Content-Security-Policy, beside what holds for all pages.
        place: of the page to open instead, or "".
    """

    html: str = ""
    policy: str = "default-src 'none'"
    place: str = ""
    status: HTTPStatus = HTTPStatus.OK


@dataclass(frozen=True)
class Stream:
    """Server-sent events, by kind and data, while a client reads them; ("", "") is a keep-alive."""

    events: Iterator[tuple[str, str]] = field(repr=False)


class Pages(Protocol):
    """What there is to see."""

    def answer(self, request: Request) -> Answer | Stream:
        """Return what a request with the token gets.

        Raises:
            PgdragError: it cannot be had.
        """
        ...

    def entrance(self) -> Answer:
        """Return the page that exchanges the token for the cookie; it tells nothing."""
        ...

    def error(self, error: PgdragError, status: HTTPStatus) -> Answer:
        """Return a page that says what went wrong."""
        ...


class NotFound(UsageError):
    """There is no such page."""


class PageServer(ThreadingHTTPServer):
    """Serves pages to clients that have the token.

    Args:
        port: to listen on; 0: one that is free.

    Raises:
        UsageError: the port is in use, or not this user's to take.
    """

    daemon_threads = True

    def __init__(self, port: int) -> None:
        self.key, self.token = secrets.token_urlsafe(12), secrets.token_urlsafe(24)
        self.pages: Pages | None = None
        self.has_ended = threading.Event()
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            is_taken = error.errno == errno.EADDRINUSE
            why = "is in use" if is_taken else f"cannot be used: {(error.strerror or '').lower()}"
            raise UsageError(
                f"port {port} of {ADDRESS} {why}",
                hint="Give --port another number, or leave it out to take a free one.",
            ) from None

    @property
    def root(self) -> str:
        """The path that all pages are below."""
        return f"/{self.key}/"

    @property
    def url(self) -> str:
        """The address to open."""
        return f"http://{ADDRESS}:{self.server_address[1]}{self.root}#{self.token}"

    def server_bind(self) -> None:
        """Bind without asking any name server who this is."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, int(self.server_address[1])

    def process_request(self, request: object, client_address: object) -> None:
        """Answer on a thread; of too many connections at once the last is closed."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)  # type: ignore[arg-type]
            return
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Answer one connection."""
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a browser that disconnects during a response; report bugs on stderr."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def server_close(self) -> None:
        """Stop listening, and end all streams."""
        self.has_ended.set()
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = _SILENT_S
    server_version, sys_version = "pgdrag", ""

    def do_GET(self) -> None:
        self._answer(urlsplit(self.path).query)

    def do_POST(self) -> None:
        body = self._body()
        if body is not None:
            self._answer(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name)
        pass

    def _body(self) -> str | None:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > _MOST_BODY_BYTES:
            self._refuse(HTTPStatus.BAD_REQUEST)
            return None
        return self.rfile.read(int(length)).decode("utf-8", "replace")

    def _answer(self, text: str) -> None:
        pages = self.server.pages
        assert pages is not None, "it has pages before it serves any"
        if (status := self._refusal()) is not None:
            self._refuse(status)
            return
        where = urlsplit(self.path)
        if not where.path.startswith(self.server.root):
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        path = tuple(unquote(x) for x in where.path[len(self.server.root) :].split("/"))
        try:
            found_values = parse_qs(text, max_num_fields=_MOST_VALUES)
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        values = {name: tuple(x) for name, x in found_values.items()}
        request = Request(self.command, path, values)
        if request.path == ("enter",) and self.command == "POST":
            self._enter(request.value("token"))
            return
        if not self._has_cookie():
            self._send(pages.entrance(), HTTPStatus.UNAUTHORIZED)
            return
        try:
            found = pages.answer(request)
        except (NotFound, JournalError) as error:
            found = pages.error(error, HTTPStatus.NOT_FOUND)
        except PgdragError as error:
            found = pages.error(error, HTTPStatus.CONFLICT)
        if isinstance(found, Stream):
            self._stream(found)
        else:
            self._send(found)

    def _refusal(self) -> HTTPStatus | None:
        """Return why a request is refused; None if it is valid with the token."""
        host = self.headers.get("Host", "")
        if not _HOST.fullmatch(host):
            return HTTPStatus.MISDIRECTED_REQUEST
        origin = self.headers.get("Origin")
        is_elsewhere = origin is not None and origin != f"http://{host}"
        # Browsers say where what they post comes from.
        if is_elsewhere or (self.command == "POST" and origin is None):
            return HTTPStatus.FORBIDDEN
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return HTTPStatus.FORBIDDEN
        return None

    def _has_cookie(self) -> bool:
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(_COOKIE)
        except CookieError:
            return False
        return cookie is not None and self._is_token(cookie.value)

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self.server.token.encode())

    def _enter(self, token: str) -> None:
        if not self._is_token(token):
            self._refuse(HTTPStatus.FORBIDDEN)
            return
        self.send_response(HTTPStatus.NO_CONTENT)
        self.send_header(
            "Set-Cookie",
            f"{_COOKIE}={self.server.token}; Path={self.server.root}; HttpOnly; SameSite=Strict",
        )
        self._end_headers()

    def _refuse(self, status: HTTPStatus) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self._end_headers()

    def _send(self, answer: Answer, status: HTTPStatus | None = None) -> None:
        content = answer.html.encode()
        self.send_response(HTTPStatus.SEE_OTHER if answer.place else status or answer.status)
        if answer.place:
            self.send_header("Location", answer.place)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self._end_headers(answer.policy)
        self.wfile.write(content)

    def _stream(self, stream: Stream) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self._end_headers()
        for kind, data in stream.events:
            lines = "".join(f"data: {line}\n" for line in data.splitlines())
            self.wfile.write((f"event: {kind}\n{lines}\n" if kind else ":\n\n").encode())
            if self.server.has_ended.is_set():
                return

    def _end_headers(self, policy: str = "default-src 'none'") -> None:
        always = "base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
        self.send_header("Content-Security-Policy", f"{policy}; {always}")
        for name, value in _HEADERS:
            self.send_header(name, value)
        self.end_headers()


_HEADERS = (
    ("Cache-Control", "no-store"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    # With less, a browser would not say where a form comes from.
    ("Referrer-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
)
