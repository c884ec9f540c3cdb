"""Memorise a folder and ask about it: the whole library in ten lines. The bank, news.mbc, stays in the working folder."""

from pathlib import Path

from mbc_engine import Memory

NEWS = Path(__file__).parent / "news"

with Memory(Path("news.mbc")) as memory:
    for event in memory.add([NEWS]):
        print(event)
    answer = memory.ask(["Who won the robotics competition?"])[0]
print(repr(answer.text))
for source in answer.sources:
    print(f"{source.share:.0%} from {source.path!r}")
