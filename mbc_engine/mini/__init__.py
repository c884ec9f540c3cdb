"""The built-in model: address codes and words find passages, a reader finds the answer in their text."""
