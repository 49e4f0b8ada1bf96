"""Generative models of transformers: one call from a live model to a folder that generates text.

    import lithify

    lithify.llm.export(model, "out/", tokenizer)

The sample, the names and the dynamic axes follow from the model: from its configuration, the signature of its forward, and the
cache that it returns. There is no list of architectures.
"""

from __future__ import annotations

from lithify.llm._export import Folder, export

__all__ = ["Folder", "export"]
