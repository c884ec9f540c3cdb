"""Equations of Office as a line of text: `x^2`, `(a + b)/2`, `√(x)`."""

from collections.abc import Callable

from lxml.etree import _Element as Element

MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"


def equation(element: Element) -> str:
    """An element of an equation, with all in it."""
    name = str(element.tag).removeprefix(MATH)
    if name in _LAYOUTS:
        return _LAYOUTS[name](element)
    if str(element.tag).endswith("}t"):
        return element.text or ""
    return "".join(equation(child) for child in element if isinstance(child.tag, str))


def _part(element: Element, name: str) -> str:
    part = element.find(f"{MATH}{name}")
    return equation(part).strip() if part is not None else ""


def _parts(element: Element) -> list[str]:
    return [equation(part) for part in element.findall(f"{MATH}e")]


def _grouped(text: str) -> str:
    return text if len(text) < 2 or text.isalnum() else f"({text})"


def _property(element: Element, name: str, otherwise: str) -> str:
    mark = element.find(f"{MATH}{element.tag[len(MATH) :]}Pr/{MATH}{name}")
    return otherwise if mark is None else mark.get(f"{MATH}val", "")


def _scripts(element: Element) -> str:
    below, above = _part(element, "sub"), _part(element, "sup")
    return f"_{_grouped(below)}" * bool(below) + f"^{_grouped(above)}" * bool(above)


def _root(element: Element) -> str:
    degree = _part(element, "deg")
    sign = {"3": "∛", "4": "∜"}.get(degree, "√")
    return ("" if sign != "√" or degree in ("", "2") else degree) + f"{sign}({_part(element, 'e')})"


def _brackets(element: Element) -> str:
    inner = _property(element, "sepChr", "|").join(_parts(element))
    return _property(element, "begChr", "(") + inner + _property(element, "endChr", ")")


def _function(element: Element) -> str:
    inner = _part(element, "e")
    return _part(element, "fName") + (inner if inner.startswith("(") else f"({inner})")


_LAYOUTS: dict[str, Callable[[Element], str]] = {
    "f": lambda element: f"{_grouped(_part(element, 'num'))}/{_grouped(_part(element, 'den'))}",
    "rad": _root,
    "nary": lambda element: f"{_property(element, 'chr', '∫')}{_scripts(element)} {_part(element, 'e')}",
    "d": _brackets,
    "func": _function,
    "m": lambda element: f"[{'; '.join(', '.join(_parts(row)) for row in element.findall(f'{MATH}mr'))}]",
    "eqArr": lambda element: "; ".join(_parts(element)),
    "limLow": lambda element: f"{_part(element, 'e')}_{_grouped(_part(element, 'lim'))}",
    "limUpp": lambda element: f"{_part(element, 'e')}^{_grouped(_part(element, 'lim'))}",
    "sPre": lambda element: _scripts(element) + _part(element, "e"),
    **dict.fromkeys(("sSub", "sSup", "sSubSup"), lambda element: _grouped(_part(element, "e")) + _scripts(element)),
}
