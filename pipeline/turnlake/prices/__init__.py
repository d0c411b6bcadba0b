"""Price cards: which there are, what they say, which one holds at an instant."""
