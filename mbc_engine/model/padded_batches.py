"""Batches of texts of about one length, so that little of a padded batch is padding."""

from collections.abc import Iterator, Sequence


def padded_batches(lengths: Sequence[int], *, size: int, longest: float) -> Iterator[list[int]]:
    """Places of texts, shortest first, batch by batch.

    Args:
        lengths: of the texts, in characters or whatever else is padded to the longest.
        size: most texts of a batch.
        longest: most of these of a batch, padding included; a text that has more stands alone.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == size or (len(batch) + 1) * lengths[place] > longest):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
