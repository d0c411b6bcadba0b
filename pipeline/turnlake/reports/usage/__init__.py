"""What was used and what it cost, in a period, by one of several keys: read, laid out, written in five formats."""
