"""Figures as readers see them: percent, intervals, seconds, bytes, p-values."""

from mbc_engine.evaluation.results import Figure

NOTHING = "\N{EN DASH}"


def percent(value: float | None) -> str:
    """`12.3`, or a dash where there is no figure; never `-0.0`."""
    return NOTHING if value is None else _signless_zero(f"{value:.1f}")


def interval(figure: Figure) -> str:
    """`10.1 to 14.5`."""
    return f"{percent(figure.low)} to {percent(figure.high)}".replace("-", "\N{MINUS SIGN}")


def difference(value: float) -> str:
    """`+1.2`, `−0.4`, `0.0`."""
    shown = _signless_zero(f"{value:+.1f}")
    return "0.0" if shown in ("0.0", "+0.0") else shown.replace("-", "\N{MINUS SIGN}")


def p_value(value: float) -> str:
    """`0.031`, or `< 0.001`."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def seconds(value: float | None) -> str:
    """Three digits: `1.23 ms`, `1.23 s`, `1,234 s`."""
    if value is None:
        return NOTHING
    if value == 0 or value >= 0.9995:
        return f"{value:.3g} s" if value < 999.5 else f"{value:,.0f} s"
    shown, units = value * 1000, iter(("ms", "µs", "ns"))
    unit = next(units)
    while shown < 0.9995 and unit != "ns":
        shown, unit = shown * 1000, next(units)
    return f"{shown:.3g} {unit}"


def size(count: int | None) -> str:
    """Bytes in powers of 1,000: `999 B`, `1.23 MB`."""
    if count is None:
        return NOTHING
    value, units = float(count), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while value >= 999.5 and unit != "TB":
        value, unit = value / 1000, next(units)
    return f"{count} B" if unit == "B" else f"{value:.3g} {unit}"


def moment(date: str) -> str:
    """An ISO 8601 date for people: `2026-02-03 14:05:06 UTC`."""
    return date.replace("T", " ").replace("+00:00", " UTC")


def _signless_zero(shown: str) -> str:
    return "0.0" if shown == "-0.0" else shown
