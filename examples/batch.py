"""Ask many questions at once, using only the documents of one year, and print one line of JSON per answer."""

import json
from datetime import date
from pathlib import Path

from mbc_engine import Memory, Selection

NEWS = Path(__file__).parent / "news"
QUESTIONS = ["Who leads the northern league?", "What will the repair cost?", "Who was the first customer?"]

with Memory(Path("news.mbc")) as memory:
    for _ in memory.add([NEWS]):
        pass
    this_year = Selection(since=date(2026, 1, 1), exclude=("science/**",))
    for answer in memory.ask(QUESTIONS, selection=this_year, sources=1):
        (source,) = answer.sources
        line = {"question": answer.question, "answer": answer.text, "file": source.path, "date": source.date}
        print(json.dumps(line))
