"""Callbacks for other training loops; each file imports its own library.

`focalibrate.nn.integrations.lightning` for Lightning, `focalibrate.nn.integrations.transformers`
for the `Trainer` of Hugging Face. Nothing is imported from here.
"""
