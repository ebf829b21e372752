"""Which of many changes have an effect of their own? As few trials as there are changes, or a few more."""
