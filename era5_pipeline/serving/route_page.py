"""The page of the routes: parameters, answers, examples; and the frame of all pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from era5_pipeline.report import html
from era5_pipeline.report.html import document, element, table
from era5_pipeline.serving.errors import ERROR_RESPONSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from xml.etree import ElementTree as ET

    from era5_pipeline.report.html import Child

# --- Common parts of the server's pages: the frame, the style of `era5 report`, and texts with code ---


HTML_TYPE = "text/html; charset=utf-8"
# No scripts, nothing from other servers; forms may only call this one.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
_STYLE = Path(html.__file__).with_name("page.css")


def framed(title: str, *children: Child) -> bytes:
    """A page with this title and these parts, as UTF-8."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", _STYLE.read_text(encoding="utf-8")),
    )
    links = element("p", element("a", "Start", href="/"), " · ", element("a", "Routes", href="/docs"))
    main = element("main", element("h1", title), *children)
    page = element("html", head, element("body", main, element("footer", links)), lang="en")
    return document(page).encode("utf-8", "replace")


def paragraphs(text: str) -> list[ET.Element]:
    """The paragraphs of a docstring, with text in backticks as code."""
    return [with_code("p", " ".join(part.split())) for part in text.strip().split("\n\n") if part.strip()]


def with_code(tag: str, text: str) -> ET.Element:
    """An element with this text, with text in backticks as code."""
    pieces = text.split("`")
    return element(tag, *(element("code", piece) if index % 2 else piece for index, piece in enumerate(pieces)))


# --- The page of the routes, from the app's own description: what each answers, its parameters, examples to click ---


_DATA = "/v1/"
# The key of example paths in the description of a route (`openapi_extra`).
EXAMPLES = "x-examples"


def route_page(description: Mapping[str, Any]) -> bytes:
    """The page for an app with this OpenAPI description."""
    parts: list[Child] = [
        element(
            "p",
            "All routes answer GET and HEAD. Examples of days that are loaded here are on the ",
            element("a", "start page", href="/"),
            ". For programs, the same as OpenAPI: ",
            element("a", "/openapi.json", href="/openapi.json"),
            ".",
        ),
        element("h2", "Errors"),
        _answers("Of every route", ERROR_RESPONSES),
    ]
    # By interest: hours first, then pages, then monitoring.
    paths = sorted(description["paths"], key=lambda path: not path.startswith(_DATA))
    parts += [_route(path, description["paths"][path]) for path in paths]
    return framed(f"{description['info']['title']}: routes", *parts)


def _route(path: str, operations: Mapping[str, Any]) -> ET.Element:
    operation = operations["get"]
    parts: list[Child] = [element("h2", element("code", path), id=operation["operationId"])]
    parts += paragraphs(operation.get("description", operation.get("summary", "")))
    if "post" in operations:
        kinds = " or ".join(operations["post"]["requestBody"]["content"])
        parts.append(element("p", f"Answers POST as well, with the parameters as {kinds} in the body."))
    for example in operation.get(EXAMPLES, ()):
        parts.append(element("p", "Example: ", element("a", element("code", example), href=example)))
    if operation.get("parameters"):
        parameters = map(_parameter, operation["parameters"])
        parts.append(table("Parameters", ("name", "what it is", "default"), parameters, scrolls=True))
    parts.append(_answers("Answers", {k: v for k, v in operation["responses"].items() if not _is_common(k, v)}))
    return element("section", *parts)


def _is_common(status: str, response: Mapping[str, Any]) -> bool:
    """Whether it is one of the errors common to every route."""
    common = ERROR_RESPONSES.get(int(status) if status.isdecimal() else status)
    return common is not None and common["description"] == response["description"]


def _types(response: Mapping[str, Any]) -> Iterable[str]:
    found: Iterable[str] = response.get("content", ("application/json",) if "model" in response else ())
    return found


def _answers(caption: str, responses: Mapping[Any, Mapping[str, Any]]) -> ET.Element:
    rows: list[tuple[Child, ...]] = [
        (str(status), "; ".join(_types(response)), with_code("span", response["description"]))
        for status, response in sorted(responses.items())
    ]
    return table(caption, ("status", "type", "when"), rows, scrolls=True)


def _parameter(one: Mapping[str, Any]) -> tuple[Child, ...]:
    schema = one.get("schema", {})
    kinds = _kinds(schema)
    text = one.get("description") or schema.get("description") or ""
    what = with_code("span", f"{text} ({kinds})" if text and kinds else text or kinds)
    return element("code", one["name"]), what, _default(one, schema)


def _default(one: Mapping[str, Any], schema: Mapping[str, Any]) -> Child:
    if one.get("required"):
        return "must be given"
    default = schema.get("default")
    if default is None:
        return ""
    return element("code", str(default).lower() if isinstance(default, bool) else str(default))


def _kinds(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(filter(None, map(_kinds, schema["anyOf"])))
    kind = str(schema.get("type", ""))
    return "" if kind == "null" else kind
