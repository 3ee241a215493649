"""The server's pages as HTML, and the page of the routes: parameters, answers, examples."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from era5_pipeline.report.html import page_environment
from era5_pipeline.serving.errors import ERROR_RESPONSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Environment

HTML_TYPE = "text/html; charset=utf-8"
# No scripts, nothing from other servers; forms may only call this one.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"


@cache
def _environment() -> Environment:
    made = page_environment("era5_pipeline.serving")
    made.filters["with_code"] = with_code
    made.filters["with_breaks"] = with_breaks
    return made


def page_of(template: str, **contents: object) -> bytes:
    """The page of a template in `templates/`, as UTF-8."""
    return _environment().get_template(template).render(contents).encode()


def with_code(text: str) -> Markup:
    """The text with what is in backticks as code."""
    pieces = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if index % 2 else escape(piece) for index, piece in enumerate(pieces)
    )


def with_breaks(url: str) -> Markup:
    """The URL as text that wraps after `?`, `&` or a comma, not within a name."""
    return Markup("<wbr>").join(re.split(r"(?<=[?&,])", url))


# --- The page of the routes, from the app's own description: what each answers, its parameters, examples to click ---


_DATA = "/v1/"
# The key of example paths in the description of a route (`openapi_extra`).
EXAMPLES = "x-examples"


def route_page(description: Mapping[str, Any]) -> bytes:
    """The page for an app with this OpenAPI description."""
    # By interest: hours first, then pages, then monitoring.
    paths = sorted(description["paths"], key=lambda path: not path.startswith(_DATA))
    routes = [(path, _route(description["paths"][path])) for path in paths]
    title = f"{description['info']['title']}: routes"
    return page_of("routes.html", title=title, common=_answers(ERROR_RESPONSES), routes=routes)


def _route(operations: Mapping[str, Any]) -> dict[str, object]:
    operation = operations["get"]
    text = operation.get("description", operation.get("summary", ""))
    return {
        "operationId": operation["operationId"],
        "paragraphs": [" ".join(part.split()) for part in text.strip().split("\n\n") if part.strip()],
        "bodies": " or ".join(operations["post"]["requestBody"]["content"]) if "post" in operations else "",
        "examples": operation.get(EXAMPLES, ()),
        "parameters": [_parameter(one) for one in operation.get("parameters", ())],
        "answers": _answers({k: v for k, v in operation["responses"].items() if not _is_common(k, v)}),
    }


def _is_common(status: str, response: Mapping[str, Any]) -> bool:
    """Return True if it is one of the errors common to every route."""
    common = ERROR_RESPONSES.get(int(status) if status.isdecimal() else status)
    return common is not None and common["description"] == response["description"]


def _answers(responses: Mapping[Any, Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """The status of each answer, its types, and when it is given."""
    json = ("application/json",)
    return [
        (str(status), "; ".join(response.get("content", json if "model" in response else ())), response["description"])
        for status, response in sorted(responses.items())
    ]


def _parameter(one: Mapping[str, Any]) -> tuple[str, str, str]:
    """The name of a parameter, what it is, and its default."""
    schema = one.get("schema", {})
    kinds = _kinds(schema)
    text = one.get("description") or schema.get("description") or ""
    default = schema.get("default")
    shown = "" if default is None else f"`{str(default).lower() if isinstance(default, bool) else default}`"
    words = f"{text} ({kinds})" if text and kinds else text or kinds
    return one["name"], words, "required" if one.get("required") else shown


def _kinds(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(filter(None, map(_kinds, schema["anyOf"])))
    kind = str(schema.get("type", ""))
    return "" if kind == "null" else kind
