"""The server as an ASGI app: its routes, its errors, and what it says of itself."""

from typing import TYPE_CHECKING

from fastapi import FastAPI

from mbc_cli.server.description import describe_truly
from mbc_cli.server.routes import router
from mbc_cli.server.telling import tell_errors
from mbc_engine import __version__

if TYPE_CHECKING:
    from mbc_cli.server.served import Served


def application(served: "Served") -> FastAPI:
    """The app that serves a memory."""
    app = FastAPI(
        title="mbc", version=__version__, summary="A compressed long-term memory", docs_url=None, redoc_url=None
    )
    app.state.served = served
    app.include_router(router)
    tell_errors(app)
    describe_truly(app, has_token=served.has_token)
    return app
