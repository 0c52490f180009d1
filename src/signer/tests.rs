//! The service, driven as its callers drive it.
