"""Ways to make a language model answer questions about documents it was not trained on."""
