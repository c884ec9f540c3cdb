"""The OpenAPI description is true: requests generated from it get what it promises."""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.cli.http.conftest import AUTHORISED, TOKEN

ROUTES = (
    *(f"POST /v1/{name}" for name in ("chat/completions", "search", "documents")),
    *("GET /v1/models/{id}", "GET /v1/documents", "GET /v1/documents/{id}", "DELETE /v1/documents/{id}"),
)
WITHOUT_PARAMETERS = ("GET /v1/models", "GET /v1/bank", "GET /health")


@pytest.mark.slow
@pytest.mark.xdist_group("server")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_generated_requests(shared_server, rounds, route, mode):
    import schemathesis  # slow to import, in every process that collects tests
    from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

    api = schemathesis.openapi.from_url(f"{shared_server.root}/openapi.json", headers=AUTHORISED)
    method, path = route.split()
    # No schema can say that a question or a text must not be blank, or what a valid date is.
    excluded = [positive_data_acceptance] if method == "POST" else []
    if route == "GET /v1/documents":
        excluded = [negative_data_rejection]  # unknown parameters are ignored

    @given(case=api[path][method].as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
    @settings(max_examples=rounds(full=200, reduced=20), suppress_health_check=list(HealthCheck))
    def check(case):
        case.call_and_validate(headers=AUTHORISED, excluded_checks=excluded)

    check()


async def test_description_has_errors_token_and_stream(serving):
    running = serving(token=TOKEN)
    response = await running.client.get("/openapi.json", headers=AUTHORISED)
    paths = response.json()["paths"].items()
    operations = {f"{method.upper()} {path}": each for path, several in paths for method, each in several.items()}
    assert set(operations) == {*ROUTES, *WITHOUT_PARAMETERS}
    assert "security" not in operations.pop("GET /health")
    for operation in operations.values():
        content = operation["responses"]["default"]["content"]["application/json"]
        assert content["schema"]["$ref"].endswith("/ErrorReply")
        assert operation["security"] == [{"HTTPBearer": []}]
    answer = operations["POST /v1/chat/completions"]["responses"]["200"]
    assert set(answer["content"]) == {"application/json", "text/event-stream"}
    assert "HTTPValidationError" not in response.text
    fields = response.json()["components"]["schemas"]["ChatRequest"]["properties"]
    assert fields["n"]["enum"] == [1, None]
