# What a person can do here. `just` alone lists it.

_list:
    @"{{ just_executable() }}" --list --unsorted

# Gateway, signer service and sandbox rail in one process, tokens printed
dev *args:
    cargo run -- dev {{ args }}

# The whole story, played and checked
demo *args:
    cargo run -- demo {{ args }}

# All tests, on SQLite and PostgreSQL
test *args:
    cargo test {{ args }}

# Every way to die, under every fault, on both engines: a quarter of an hour; writes docs/crash-matrix.md
crash-matrix:
    COUNTERSIGN_MATRIX=whole cargo test --locked --test it crash_matrix -- --nocapture

# Fuzz the ingress with arbitrary bodies; needs a nightly toolchain and cargo-fuzz
fuzz seconds="60":
    cargo +nightly fuzz run ingress -- -max_total_time={{ seconds }} -max_len=4096

# Clippy; every warning is an error
lint:
    cargo clippy --locked --all-targets -- -D warnings

# Format the code
fmt:
    cargo fmt

# API documentation, private items too; every warning is an error
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items

# Exactly what CI runs
ci:
    .ci/run

# The demo through the stack of docker-compose.yml; --kill kills parts of it meanwhile
smoke *args:
    deploy/smoke.sh {{ args }}
