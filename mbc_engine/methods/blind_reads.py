"""Which reads cannot see what a control spoils; their answers say nothing, and are no failure of the real bank."""

import math
from typing import Final

from mbc_engine.read_modes import ReadMode

# Its codes change documents, of which there are as many of each as before.
_MIXED: Final = "mbc-shuffled-documents"


def alike_up_to(control: str, read_mode: ReadMode) -> float:
    """Up to how many chunks a bank has for a read to be as it was, whatever a control does to it.

    Codes that change documents show where some are read and others not, or apart from others: not in the flat read,
    which looks at how often each code occurs and no further; nor where a bank is one group of a hierarchical read, or
    a routed read takes all of it.

    Args:
        control: its name in the roster.
        read_mode: with its number, be it the model's own.

    Returns:
        0 where the read always sees the control's doing, infinity where it never does.
    """
    if control != _MIXED:
        return 0
    return math.inf if read_mode.number is None else read_mode.number
