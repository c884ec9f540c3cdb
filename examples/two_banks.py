"""Read two banks as one: each stays a file of its own, and one may count more than the other."""

from pathlib import Path

from mbc_engine import Banks, Memory, ingest, load_model, open_bank

NEWS = Path(__file__).parent / "news"

model = load_model("mini")
for name in ("city", "sport"):
    with open_bank(model, Path(f"{name}.mbc")) as bank:
        for _ in ingest(model, bank, [NEWS / name]):
            pass

with Banks.open([Path("city.mbc"), Path("sport.mbc")], weights=[1, 0.5]) as both:
    print(f"{both.totals().documents} documents in {both.name}")
    for reply in Memory(both, model).ask(["Who said what the repair will cost?", "Who scored the late goal?"]):
        print(f"{reply.text!r} from {reply.sources[0].bank}")
