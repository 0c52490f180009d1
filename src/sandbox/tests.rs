//! The sandbox, tried.
