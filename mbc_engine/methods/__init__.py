"""Ways to make a language model answer about documents that it was not trained on."""
