"""The commands of a group and of the groups in it, each by its words, and what their options are called."""

from collections.abc import Iterator

from typer.core import TyperCommand, TyperGroup, TyperOption

Words = tuple[str, ...]


def commands_below(group: TyperGroup, *words: str) -> Iterator[tuple[Words, TyperCommand | TyperGroup]]:
    """All commands in their order, groups that are commands by themselves among them.

    Args:
        group: where to begin.
        words: that lead to it.
    """
    for word, command in group.commands.items():
        if isinstance(command, TyperGroup):
            if command.invoke_without_command:
                yield (*words, word), command
            yield from commands_below(command, *words, word)
        elif isinstance(command, TyperCommand):
            yield (*words, word), command


def long_name(option: TyperOption) -> str:
    """An option's longest name, without dashes in front."""
    return max(option.opts, key=len).lstrip("-")
