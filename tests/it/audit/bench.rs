//! How fast audited changes commit, beside what the engine itself can do.
