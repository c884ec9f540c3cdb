"""The hub as it is seen from here: whether it may be asked, whether it answers, and what of it was downloaded."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Seconds; whoever waits for a diagnosis waits no longer.
PATIENCE: Final = 3.0


@dataclass(frozen=True)
class Hub:
    """Where pretrained models come from.

    Attributes:
        offline: whether the environment forbids to ask it.
        reachable: whether it answered in a few seconds; None if it was not asked.
        cache: where downloaded models are.
        cached: their names.
    """

    offline: bool
    reachable: bool | None
    cache: str
    cached: list[str]


def hub_from_here(*, may_ask: bool) -> Hub:
    """The hub, and what of it is in the cache; asking whether it can be reached takes seconds at most."""
    try:
        from huggingface_hub import constants
    except ImportError:
        return Hub(offline=True, reachable=None, cache="", cached=[])
    reachable = None
    if may_ask and not constants.HF_HUB_OFFLINE:
        reachable = _within(PATIENCE, lambda: answers(constants.ENDPOINT))
    names = Path(constants.HF_HUB_CACHE).glob("models--*")
    return Hub(
        offline=constants.HF_HUB_OFFLINE,
        reachable=reachable,
        cache=constants.HF_HUB_CACHE,
        cached=sorted(path.name.removeprefix("models--").replace("--", "/") for path in names),
    )


def answers(address: str) -> bool:
    """Whether anything answers, whatever it says."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    try:
        asked = Request(address, method="HEAD")  # noqa: S310  # the address is the user's own setting
        urlopen(asked, timeout=PATIENCE).close()  # noqa: S310
    except HTTPError:
        return True
    except (OSError, ValueError):
        return False
    return True


def _within(patience: float, ask: Callable[[], bool]) -> bool:
    """What `ask` says, False if it takes too long: looking up a name knows no time limit of its own."""
    said: list[bool] = []
    thread = threading.Thread(target=lambda: said.append(ask()), daemon=True)
    thread.start()
    thread.join(patience)
    return bool(said) and said[0]
