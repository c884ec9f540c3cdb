"""Pretrained language models and encoders: loading, tokenization, generation, quantisation, text compression."""
