"""CaMeLS: meta-learned weights of a document's tokens (Hu, Mitchell, Manning and Finn 2023, arXiv 2305.15076).

A small weight model says how much each token of a document counts. It is trained so that after one weighted gradient
step on documents the base LM answers their questions, and speaks elsewhere as before. At adaptation it stands still,
and the base LM is fine-tuned under its weights.
"""
