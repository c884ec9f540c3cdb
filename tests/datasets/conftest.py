"""Rows as they are in question files."""

import json

ROW = {"text": "Ada moved to Aalen.", "question": "Where did Ada move?", "answers": ["Aalen", "In Aalen"]}


def as_lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)
