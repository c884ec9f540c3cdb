"""Evaluate a memory: the quality of its answers, its first source, and its size on disk.

    python recipes/newswire/generate.py test 32 > news.jsonl
    python examples/evaluate.py news.jsonl

The questions are about made-up news that the model has never seen.
"""

import sys

from mbc_engine import RetrieveAndRead, RetrieverReader, evaluate, load_examples, load_model, run_to_completion


def main(data: str) -> None:
    model = load_model("mini")
    assert isinstance(model, RetrieverReader)  # a model of the paper's method is evaluated as MemoryMethod(model)
    online = run_to_completion(evaluate(RetrieveAndRead(model), load_examples(data)))
    match, f1 = online.scores.exact_match, online.scores.f1
    print(f"{online.scores.questions} questions about {online.cost.documents} stories")
    print(f"exact match {match.value:.1f}% (95% interval {match.low:.1f} to {match.high:.1f}), F1 {f1.value:.1f}%")
    print(f"right source first {online.scores.first_source:.1f}%")
    print(f"the bank takes {online.cost.on_disk:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
