"""Callbacks for other people's loops; each file needs its library, and imports it.

`focalibrate.nn.integrations.lightning` for Lightning, `focalibrate.nn.integrations.transformers`
for the `Trainer` of Hugging Face. Nothing is imported from here.
"""
