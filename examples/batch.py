"""Ask many questions at once, of the documents of one year alone, and write a line of JSON for each."""

import json
from datetime import date
from pathlib import Path

from mbc_engine import Memory, Selection, ingest, load_model, open_bank

NEWS = Path(__file__).parent / "news"
QUESTIONS = ["Who leads the northern league?", "What will the repair cost?", "Who was the first customer?"]

model = load_model("mini")
with open_bank(model, Path("news.mbc")) as bank:
    for _ in ingest(model, bank, [NEWS]):
        pass
    this_year = Selection(since=date(2026, 1, 1), exclude=("science/**",))
    for reply in Memory(bank, model).ask(QUESTIONS, selection=this_year, sources=1):
        (source,) = reply.sources
        line = {"question": reply.question, "answer": reply.text, "file": source.path, "date": source.date}
        print(json.dumps(line))
