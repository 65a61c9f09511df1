"""Claims and what becomes of them: rules, verdicts, the tables that record them, errata."""
