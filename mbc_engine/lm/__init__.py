"""Base language models: families, loading, texts, generation, and what saves memory and time."""
