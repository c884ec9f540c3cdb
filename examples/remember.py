"""Memorise a folder and ask about it: the whole library in ten lines. The bank, news.mbc, stays in the working folder."""

from pathlib import Path

from mbc_engine import Memory, ingest, load_model, open_bank

NEWS = Path(__file__).parent / "news"

model = load_model("mini")
with open_bank(model, Path("news.mbc")) as bank:
    for event in ingest(model, bank, [NEWS]):
        print(event)
    reply = Memory(bank, model).ask(["Who won the robotics competition?"])[0]
print(repr(reply.text))
for source in reply.sources:
    print(f"{source.share:.0%} from {source.path!r}")
