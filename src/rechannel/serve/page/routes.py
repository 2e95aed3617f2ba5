"""The routes of the page. They need no token: a browser that opens an address has none to send, and they have no
data.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Depends, Response

from rechannel.serve.page.files import HEADERS, ROOT, page_files
from rechannel.serve.route_parts import ANY, check_parameters


def open_paths() -> frozenset[str]:
    """Return the paths of all files."""
    return frozenset(page_files())


def page_routes() -> APIRouter:
    """Return a route for each file. Only that of the page itself is in the OpenAPI document."""
    routes = APIRouter(
        tags=["page"],
        responses={status: ANY[status] for status in (403, 422)},
        dependencies=[Depends(check_parameters)],
    )
    for path in page_files():
        routes.add_api_route(
            path,
            _answer_of(path),
            methods=["GET"],
            summary="The job as a page for a browser. No token is needed: the page asks for it",
            response_class=Response,
            responses={200: {"description": "HTML.", "content": {"text/html": {}}}},
            include_in_schema=path == ROOT,
            openapi_extra={"security": []},
            name=path,
        )
    return routes


def _answer_of(path: str) -> Callable[[], Awaitable[Response]]:
    file = page_files()[path]

    async def answer() -> Response:
        return Response(file.text, media_type=file.media_type, headers=dict(HEADERS))

    return answer
