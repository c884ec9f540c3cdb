"""Query two banks as one: each stays its own file, and one can be weighted higher than the other."""

from pathlib import Path

from mbc_engine import Memory, load_model

NEWS = Path(__file__).parent / "news"

model = load_model("mini")
for name in ("city", "sport"):
    with Memory(Path(f"{name}.mbc"), model) as memory:
        for _ in memory.add([NEWS / name]):
            pass

with Memory([Path("city.mbc"), Path("sport.mbc")], model, weights=[1, 0.5]) as both:
    _header, totals, _sizes = both.info()
    print(f"{totals.documents} documents in two banks")
    for answer in both.ask(["Who said what the repair will cost?", "Who scored the late goal?"]):
        print(f"{answer.text!r} from {answer.sources[0].bank}")
