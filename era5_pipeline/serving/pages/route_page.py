"""The page of the routes: what each answers, its parameters, and examples to click; from the app's own description."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from era5_pipeline.query.report.elements import element, table
from era5_pipeline.serving.pages.page_frame import framed, paragraphs, with_code

if TYPE_CHECKING:
    from collections.abc import Mapping
    from xml.etree import ElementTree as ET

    from era5_pipeline.query.report.elements import Child

# In the description of a route (`openapi_extra`): paths with queries that show what it is for.
EXAMPLES = "x-examples"


def route_page(description: Mapping[str, Any]) -> bytes:
    """The page for an app with this OpenAPI description."""
    parts: list[Child] = [
        element(
            "p",
            "All routes answer GET and HEAD. For programs, the same as OpenAPI: ",
            element("a", "/openapi.json", href="/openapi.json"),
            ".",
        )
    ]
    for path, operations in description["paths"].items():
        operation = operations.get("get")
        if operation is not None:
            parts.append(_route(path, operation))
    return framed(f"{description['info']['title']}: routes", *parts)


def _route(path: str, operation: Mapping[str, Any]) -> ET.Element:
    parts: list[Child] = [element("h2", element("code", path), id=operation["operationId"])]
    parts += paragraphs(operation.get("description", operation.get("summary", "")))
    for example in operation.get(EXAMPLES, ()):
        parts.append(element("p", "Example: ", element("a", element("code", example), href=example)))
    if operation.get("parameters"):
        parameters = map(_parameter, operation["parameters"])
        parts.append(table("Parameters", ("name", "what it is", "default"), parameters, scrolls=True))
    rows: list[tuple[Child, ...]] = [
        (status, "; ".join(response.get("content", ())), with_code("span", response["description"]))
        for status, response in sorted(operation["responses"].items())
    ]
    parts.append(table("Answers", ("status", "type", "when"), rows, scrolls=True))
    return element("section", *parts)


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
