"""Which answers a question is to get, for all who name them; how they are made is in `serving/`."""

from enum import StrEnum


class Answers(StrEnum):
    """From memory, which is the bank's codes alone; read, in the files that the memory leads to; or both."""

    BOTH = "both"
    MEMORY = "memory"
    READ = "read"

    @property
    def are_recalled(self) -> bool:
        """Whether there is to be one from memory."""
        return self is not Answers.READ

    @property
    def are_read(self) -> bool:
        """Whether there is to be one read in files."""
        return self is not Answers.MEMORY
