"""Paper 000: Charoenphakdee et al. (2021)."""
