"""Charts as static SVG: Vega-Lite specifications, drawn in this process.

Colours are CSS variables, so that one drawing serves light, dark and paper. What a mark stands for is its `<title>`,
which browsers show to who points at it and screen readers read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import vl_convert
from markupsafe import Markup

FOLDER = Path(__file__).resolve().with_name("charts")
SVG = "http://www.w3.org/2000/svg"
_SHAPES = {"svg", "g", "path", "line", "rect", "circle", "text", "tspan", "title"}
_DROPPED = {"font-family", "pointer-events", "aria-hidden", "aria-roledescription", "role", "class", "version"}
ElementTree.register_namespace("", SVG)


def drawn(name: str, label: str, values: Mapping[str, Any], canvas: int) -> Markup:
    """The chart `charts/<name>.vl.json`, its strings `$key` replaced by values[key]; `label` says what it shows.

    `canvas` is its width, of which a chart may leave some free: charts of one canvas have letters of one size.
    A member whose value is None is left out. Raises ValueError for a drawing with more in it than shapes and text.
    """
    spec = _filled(json.loads(_text(f"{name}.vl.json")), values)
    spec["config"] = json.loads(_text("config.json"))
    # No address may be read, whatever a specification says.
    svg = ElementTree.fromstring(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]))
    for element in svg.iter():
        _clean(element)
    width, height = max(float(svg.attrib.pop("width")), canvas), svg.attrib.pop("height")
    svg.attrib |= {
        "role": "img",
        "aria-label": label,
        "style": f"max-width:{width:g}px",
        "viewBox": f"0 0 {width:g} {height}",
    }
    return Markup(ElementTree.tostring(svg, encoding="unicode"))


@cache
def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _filled(node: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(node, str):
        return values[node[1:]] if node.startswith("$") else node
    if isinstance(node, list):
        return [_filled(item, values) for item in node]
    if not isinstance(node, dict):
        return node
    # What a specification itself sets to null stays: it switches something off.
    members = {key: (value, _filled(value, values)) for key, value in node.items()}
    return {key: new for key, (old, new) in members.items() if new is not None or old is None}


def _clean(element: ElementTree.Element) -> None:
    if element.tag.removeprefix(f"{{{SVG}}}") not in _SHAPES:
        raise ValueError(f"a chart holds an element {element.tag}")
    about = element.attrib.pop("aria-label", None)
    is_mark = element.get("aria-roledescription") in ("bar", "point")
    for name in _DROPPED.intersection(element.attrib):
        del element.attrib[name]
    if is_mark and about:
        title = ElementTree.SubElement(element, f"{{{SVG}}}title")
        title.text = about
