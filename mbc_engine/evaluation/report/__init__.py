"""What an experiment found out, gathered, judged and shown: as a page, as Markdown and as JSON."""
