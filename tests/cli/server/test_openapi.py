"""What the server says of itself is so: requests made from its own description get what that promises."""

from collections.abc import Callable
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

TOKEN = "0123456789abcdef-secret"
_ROUTES = {
    "POST /v1/chat/completions": {"200", "400", "401", "404", "408", "413", "429", "500", "503"},
    "GET /v1/models": {"200", "401"},
    "GET /v1/models/{id}": {"200", "401", "404"},
    "GET /v1/bank": {"200", "401", "500", "503"},
    "POST /v1/documents": {"201", "400", "401", "408", "413", "429", "500", "503"},
    "GET /v1/documents": {"200", "400", "401", "500", "503"},
    "GET /v1/documents/{id}": {"200", "400", "401", "404", "500", "503"},
    "DELETE /v1/documents/{id}": {"200", "400", "401", "403", "404", "429", "500", "503"},
    "GET /health": {"200", "503"},
}


_TAKE_SOMETHING = [route for route in _ROUTES if "{" in route or "400" in _ROUTES[route]]
# Of what takes nothing, nothing can be wrong.
_SENT = [
    (route, mode)
    for route in _ROUTES
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or route in _TAKE_SOMETHING
]


@pytest.mark.parametrize(("route", "mode"), _SENT)
def test_requests_get_what_the_description_promises(
    serving: Callable[..., Any], rounds: Callable[..., int], route: str, mode: GenerationMode
) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    running = serving(token=TOKEN)
    running.memory.catch_up()
    api = schemathesis.openapi.from_asgi("/openapi.json", running.guarded, headers=headers)
    method, path = route.split()
    cases = api[path][method].as_strategy(generation_mode=mode)

    @given(case=cases)
    @settings(max_examples=rounds(full=200, reduced=8), suppress_health_check=list(HealthCheck))
    def check(case: Any) -> None:
        case.call_and_validate(headers=headers, excluded_checks=_unsaid(route))

    check()


def _unsaid(route: str) -> list[Any]:
    """That a question asks something and a text says something, and what is a day, no schema can say."""
    return [positive_data_acceptance] if route.startswith("POST") else []


async def test_all_statuses_and_the_stream_are_described(serving: Callable[..., Any]) -> None:
    running = serving(token=TOKEN, is_begun=False)
    response = await running.client.get("/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"})
    paths = response.json()["paths"]
    found = {
        f"{method.upper()} {path}": set(operation["responses"])
        for path, operations in paths.items()
        for method, operation in operations.items()
    }
    assert found == _ROUTES
    answers = paths["/v1/chat/completions"]["post"]["responses"]
    assert set(answers["200"]["content"]) == {"application/json", "text/event-stream"}
    assert "Retry-After" in answers["429"]["headers"]
    assert "HTTPValidationError" not in response.text
