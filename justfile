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

# The model check in larger worlds: minutes, and gigabytes of memory
model-deep:
    COUNTERSIGN_MODEL=deep cargo test --test it model:: -- --nocapture --test-threads=1

# Random histories on both engines, from another seed each time
properties cases="100":
    COUNTERSIGN_PROPERTIES={{ cases }} cargo test --test it property:: -- --nocapture

# Every way to die, under every fault, on both engines: a quarter of an hour; writes docs/crash-matrix.md
crash-matrix:
    COUNTERSIGN_MATRIX=whole cargo test --locked --test it crash_matrix -- --nocapture

# The plans of claims, scans and reads over 1,000,000 finished and 1,000 open payments; takes minutes
plans-million:
    COUNTERSIGN_TEST_ROWS=1000000 cargo test --test it -- growth::hot --nocapture

# What a status read and an idle tick cost as the table grows from 10³ to 10⁶ payments; takes minutes
bench-reads rows="1000000":
    COUNTERSIGN_BENCH_ROWS={{ rows }} cargo test --release --test it -- growth::reads --nocapture

# Fuzz the ingress with arbitrary bodies, and the verifier with bundles; needs a nightly toolchain and cargo-fuzz
fuzz seconds="60":
    cargo +nightly fuzz run ingress -- -max_total_time={{ seconds }} -max_len=4096
    cargo +nightly fuzz run bundle -- -max_total_time={{ seconds }} -max_len=65536

# How fast audited changes commit, beside the engine's own rate, on both engines; two minutes
bench-audit seconds="2":
    COUNTERSIGN_BENCH_AUDIT={{ seconds }} cargo test --release --test it -- audit::bench --nocapture

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

# What the journal costs beside the engine's own commits, on both engines, and what bench-reads says
bench-journal payments="2000": && bench-reads
    COUNTERSIGN_BENCH={{ payments }} cargo test --release --test it -- bench_journal --nocapture

# Payments that go wrong behind other MCP gateways, which it installs, and with Countersign; writes docs/comparison.md
controls *args:
    cargo build --locked
    python3 tests/controls {{ args }}

# Three gateways and two workers on one PostgreSQL while everything that can die does; prints the counts
chaos minutes="3":
    COUNTERSIGN_CHAOS={{ minutes }} cargo test --test it -- --nocapture --exact chaos::whatever_dies_under_load_nothing_is_lost_stuck_or_paid_twice

# Takes each guard away in turn and sees its test fail; hours; writes docs/teeth.md. Words choose guards by name
teeth *words:
    tests/teeth/run {{ words }}

# cargo-mutants on a part of domain or journal, whole or a shard such as 3/40; --sum says what came of it
mutants part="" shard="":
    tests/teeth/mutants {{ part }} {{ shard }}
