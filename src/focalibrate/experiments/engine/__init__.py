"""How an experiment is run, judged and shown."""
