//! The rail client against the real sandbox.
