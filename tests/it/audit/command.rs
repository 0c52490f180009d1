//! The commands as an auditor and an operator meet them: exit codes, words, JSON, and another program.
